"""What streamdec asks of a tokenizer.

Two things can be decoded:

* any object with ``decode(token_ids, skip_special_tokens=...)`` (:class:`Decoder`): streamed over a
  window of recent ids;
* a :class:`TableDecoder`, which also says by which *rule* its library joins tokens and what each
  token is made of: streamed byte by byte, exactly.

The rules are data, so a backend needs nothing of :mod:`streamdec.core`, and the core nothing of any
tokenizer library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from streamdec.encoding import Encoding, Special, SpecialTokens

__all__ = [
    "CTC",
    "BPESuffix",
    "ByteFallback",
    "ByteLevel",
    "Concatenation",
    "Decoder",
    "DecodingRule",
    "Encoder",
    "IncrementalDecoder",
    "Joined",
    "LiteralReplace",
    "Metaspace",
    "RawBytes",
    "TableDecoder",
    "TextRules",
    "Tokenizer",
    "WordPiece",
    "new_decode_stream",
]


# --- how a library turns tokens into text ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RawBytes:
    r"""Each piece is the token's bytes; all are joined and decoded at once (tiktoken, Tekken).

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import RawBytes
    >>> MockTokenizer.from_tokens([b"\xe4\xbd", b"\xa0"], decoder=RawBytes()).decode([0, 1])
    '你'
    """


@dataclass(frozen=True, slots=True)
class ByteLevel:
    """GPT-2's byte alphabet: a piece of its 256 letters is bytes, any other is its own UTF-8.

    The alphabet is ``bytes_to_unicode`` of GPT-2's ``encoder.py``; ``tokenizers`` has the decoder
    under this name.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import ByteLevel
    >>> pieces = [piece.encode() for piece in ("Ġcaf", "Ã", "©")]
    >>> MockTokenizer.from_tokens(pieces, decoder=ByteLevel()).decode([0, 1, 2])
    ' café'
    """


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Pieces are text and are joined with nothing between.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import Concatenation
    >>> MockTokenizer.from_tokens([b"un", b"do"], decoder=Concatenation()).decode([0, 1])
    'undo'
    """


@dataclass(frozen=True, slots=True)
class Joined:
    """Pieces are text, joined by ``separator`` (``tokenizers`` without a decoder: one space).

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import Joined
    >>> MockTokenizer.from_tokens([b"un", b"do"], decoder=Joined("-")).decode([0, 1])
    'un-do'
    """

    separator: str = " "


@dataclass(frozen=True, slots=True)
class Metaspace:
    """``replacement`` stands for a space; in the first piece all of them vanish if ``prepend``.

    SentencePiece's way to write spaces; the decoder of ``tokenizers`` of this name.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import Metaspace
    >>> pieces = [piece.encode() for piece in ("▁Hi", "▁there")]
    >>> MockTokenizer.from_tokens(pieces, decoder=Metaspace()).decode([0, 1])
    'Hi there'
    """

    replacement: str = "\u2581"
    prepend: bool = True


@dataclass(frozen=True, slots=True)
class ByteFallback:
    """A piece ``<0xE4>`` is one byte; neighbouring ones form a run. Other pieces are text.

    With ``metaspace`` that rule applies afterwards, to each text piece and each run (ChatGLM3).

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import ByteFallback
    >>> pieces = [b"caf", b"<0xC3>", b"<0xA9>"]
    >>> MockTokenizer.from_tokens(pieces, decoder=ByteFallback()).decode([0, 1, 2])
    'café'
    """

    metaspace: Metaspace | None = None


@dataclass(frozen=True, slots=True)
class WordPiece:
    """Pieces beginning with ``prefix`` continue the word before; others get a space in front.

    BERT's. With ``cleanup`` spaces before punctuation and contractions go, piece by piece, as in
    the decoder of ``tokenizers`` of this name.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import WordPiece
    >>> pieces = [b"em", b"##bed", b"it", b"."]
    >>> MockTokenizer.from_tokens(pieces, decoder=WordPiece()).decode([0, 1, 2, 3])
    'embed it.'
    """

    prefix: str = "##"
    cleanup: bool = True


@dataclass(frozen=True, slots=True)
class BPESuffix:
    """``suffix`` ends a word: a space, but nothing in the last piece.

    The first GPT's; ``BPEDecoder`` of ``tokenizers``.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import BPESuffix
    >>> pieces = [b"lo", b"w</w>", b"tide</w>"]
    >>> MockTokenizer.from_tokens(pieces, decoder=BPESuffix()).decode([0, 1, 2])
    'low tide'
    """

    suffix: str = "</w>"


@dataclass(frozen=True, slots=True)
class CTC:
    """Repeated pieces count once, ``pad`` is removed; ``delimiter`` is a space if ``cleanup``.

    What speech models write (connectionist temporal classification); the decoder of ``tokenizers``
    of this name. With ``metaspace`` that rule applies afterwards.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import CTC
    >>> pieces = [b"h", b"h", b"i", b"|", b"a", b"<pad>", b"a"]
    >>> MockTokenizer.from_tokens(pieces, decoder=CTC()).decode(range(7))
    'hi aa'
    """

    pad: str = "<pad>"
    delimiter: str = "|"
    cleanup: bool = True
    metaspace: Metaspace | None = None


DecodingRule = (
    RawBytes
    | ByteLevel
    | Concatenation
    | Joined
    | Metaspace
    | ByteFallback
    | WordPiece
    | BPESuffix
    | CTC
)
"""The rules by which a library joins pieces; the first one's bytes, all others' text."""


@dataclass(frozen=True, slots=True)
class LiteralReplace:
    """Every ``pattern`` (not empty) in the whole text becomes ``content``, leftmost first.

    As ``str.replace`` does. A stream withholds what may still become the pattern.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.protocols import Concatenation, LiteralReplace, TextRules
    >>> rules = TextRules(Concatenation(), replaces=(LiteralReplace("--", "-"),))
    >>> stream = DecodeStream(MockTokenizer.from_tokens([b"a-", b"-b"], decoder=rules))
    >>> stream.step_batch([0, 1])
    ['a', '-b']
    """

    pattern: str
    content: str


@dataclass(frozen=True, slots=True)
class TextRules:
    """How a tokenizer's library turns the list of pieces into text.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.protocols import Joined, TextRules
    >>> MockTokenizer().rules == TextRules(Joined(" "))
    True
    """

    rule: DecodingRule
    """How pieces are joined."""
    strip_left: tuple[str, int] = ("", 0)
    """One character, and how many of it are removed from the very beginning of the text."""
    replaces: tuple[LiteralReplace, ...] = ()
    """What is replaced in the whole text afterwards, in this order."""


# --- what a tokenizer can do ----------------------------------------------------------------------


@runtime_checkable
class Encoder(Protocol):
    """Turns text into token ids.

    ``add_special_tokens`` asks for those that a template of the tokenizer puts around a text (BOS,
    ``[CLS]``); ``special`` says what becomes of those that the text itself spells
    (:data:`~streamdec.encoding.Special`).

    >>> from streamdec import Encoder, MockTokenizer
    >>> isinstance(MockTokenizer(), Encoder)
    True
    >>> MockTokenizer().encode("Hello world").ids
    (1, 2)
    """

    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode ``text``; special tokens are added around it only when asked for.

        Raises EncodeError for what cannot be encoded or must not be, TypeError for what is no text,
        ValueError for a ``special`` that is none.
        """
        ...

    def encode_batch(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> list[Encoding]:
        """Encode each of ``texts`` as :meth:`encode` does."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """Turns all token ids into text at once: all that a stream needs.

    Any object with this method will do; it is streamed over a window of recent ids. Without
    ``skip_special_tokens`` special tokens are part of the text.

    >>> from streamdec import Decoder, DecodeStream
    >>> class Letters:
    ...     def decode(self, token_ids, *, skip_special_tokens=True):
    ...         return "".join(chr(97 + token_id) for token_id in token_ids)
    >>> isinstance(Letters(), Decoder)
    True
    >>> DecodeStream(Letters()).step_batch([7, 8])
    ['h', 'i']
    """

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of ``token_ids``, which are ints from 0 to 2**32 - 1.

        ``skip_special_tokens`` leaves special tokens out. Ids without a token contribute nothing.
        The backends of streamdec raise :class:`~streamdec.TokenizerLibraryError` for other ids and
        if the library fails.
        """
        ...


@runtime_checkable
class TableDecoder(Decoder, Protocol):
    r"""A decoder that can be compiled: it tells what tokens are made of and how they are joined.

    A stream of one works on bytes and is exact. It is used after a sample (``sample_ids``) was
    compared with its ``decode``.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.protocols import TableDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
    >>> isinstance(tokenizer, TableDecoder), DecodeStream(tokenizer).route
    (True, 'bytes')
    """

    @property
    def rules(self) -> TextRules | None:
        """How pieces become text; None if only ``decode`` knows."""
        ...

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify what the tokenizer decodes.

        Snapshots contain it, and restoring one with another tokenizer raises
        SnapshotError. Equal tokenizers of one format have equal fingerprints. The
        fingerprint covers every token, the decoding rules and the skipped ids, in at most 5 ms.

        A HuggingFaceTokenizer with more than 1,024 tokens is an exception, because its library
        takes much longer to list them. Its 16 digits cover the rules, the size, all added tokens
        and 512 to 1,024 tokens spread over the vocabulary. If it was loaded from a tokenizer.json,
        a dash and 16 more digits cover the whole vocabulary as the file spells it. A
        ``tokenizers.Tokenizer`` or a tokenizer of transformers that was passed as an object has
        the first 16 digits only, and then only those are compared: one that differs in a few
        ordinary tokens may be accepted. Load both from files to rule that out.
        """
        ...

    def piece(self, token_id: int) -> str | bytes | None:
        """Return what ``token_id`` gives to the rule: bytes or text; None if there is no token."""
        ...

    def is_skipped(self, token_id: int) -> bool:
        """Whether ``decode`` leaves ``token_id`` out if ``skip_special_tokens`` is true."""
        ...

    def sample_ids(self) -> Sequence[int]:
        """Return a few hundred ids to verify a table with, including special and byte tokens."""
        ...


class IncrementalDecoder(Protocol):
    """What ``decode_stream`` gives: :class:`~streamdec.DecodeStream`, as far as a backend knows.

    >>> from streamdec import MockTokenizer
    >>> stream = MockTokenizer().decode_stream()
    >>> stream.step(1) + stream.flush()
    'Hello'
    """

    def step(self, token_id: int, /) -> str:
        """Takes ``token_id``; returns the text it completes."""
        ...

    def step_batch(self, token_ids: Iterable[int], /) -> list[str]:
        """Takes ``token_ids``; returns a text for each."""
        ...

    def flush(self) -> str:
        """Ends the stream; returns what was held."""
        ...

    @property
    def held(self) -> bytes:
        """The bytes of an unfinished character."""
        ...


@runtime_checkable
class Tokenizer(Encoder, TableDecoder, Protocol):
    """Both directions, as every backend of streamdec offers them.

    >>> from streamdec import MockTokenizer, Tokenizer
    >>> isinstance(MockTokenizer(), Tokenizer)
    True
    """

    async def aencode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode as :meth:`encode` does, without blocking the event loop."""
        ...

    async def aencode_batch(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> list[Encoding]:
        """Encode as :meth:`encode_batch` does, without blocking the event loop."""
        ...

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Decode each list of ids in ``batch`` as :meth:`decode` does."""
        ...

    def decode_stream(
        self, prompt_token_ids: Iterable[int] = (), *, skip_special_tokens: bool = True
    ) -> IncrementalDecoder:
        """Return a stream that turns ids into text as they arrive, after a prompt.

        ``prompt_token_ids`` and ``skip_special_tokens`` are as for DecodeStream.
        """
        ...

    def id_to_token(self, token_id: int) -> str | None:
        """Return the name of ``token_id`` as the library spells it; None if there is no token."""
        ...

    def token_to_id(self, token: str) -> int | None:
        """Return the id of the ``token`` with this name in the vocabulary, or None."""
        ...

    def token_bytes(self, token_id: int) -> bytes | None:
        """Return the bytes of ``token_id`` in the middle of a text; None if there is no token."""
        ...

    @property
    def vocab_size(self) -> int:
        """The highest id plus one: holes and added tokens count, padding of the model does not."""
        ...

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens and their roles."""
        ...


# --- the stream -----------------------------------------------------------------------------------


def new_decode_stream(
    tokenizer: Decoder, prompt_token_ids: Iterable[int], **options: Any
) -> IncrementalDecoder:
    """Return a DecodeStream of ``tokenizer``. Backends call it: they do not import the core."""
    made: IncrementalDecoder = import_module("streamdec.core.decode_stream").DecodeStream(
        tokenizer, prompt_token_ids, **options
    )
    return made
