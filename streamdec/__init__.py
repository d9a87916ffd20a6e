"""streamdec: an LLM engine's token ids as text, live and exact to the byte."""

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.mock import MockTokenizer
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.sequence import Sequence
