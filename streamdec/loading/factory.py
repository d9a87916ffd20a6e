"""``load_tokenizer``: the one way from a path to a tokenizer that is ready to stream.

In: a path. Out: a backend's tokenizer, its compiled table compared with its own ``decode``.
"""

from __future__ import annotations

import os
from pathlib import Path

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.core.programs import route_of
from streamdec.errors import UnsupportedFormatError
from streamdec.loading.detect import detect_format
from streamdec.protocols import Tokenizer

__all__ = ["load_tokenizer"]

SUPPORTED = "a Hugging Face tokenizer.json (whatever its name) or a folder that has one"


def load_tokenizer(path_or_name: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer in a file, or in a folder that has a ``tokenizer.json``.

    What a file is is told by its content, never by its name. Models are not looked up by name: give
    the path of a file that is there.

    A sample of the tokenizer's ids is compared with its own ``decode`` at once, so a difference is
    warned of here (:class:`StreamdecWarning`) and not in the middle of a stream. Costs what the
    library's loading costs, and ≤ 5 ms or 2 % more.

    Raises :class:`TokenizerLoadError`, which names the path, if nothing is there or it cannot be
    read, and :class:`UnsupportedFormatError`, which says what was found, if we do not serve it.

    >>> load_tokenizer("/path/to/model")  # doctest: +SKIP
    HuggingFaceTokenizer('/path/to/model/tokenizer.json', ByteLevel)
    """
    found = detect_format(Path(os.fsdecode(path_or_name)))
    if found.format == "unsupported":
        what = f"found {found.description}; supported: {SUPPORTED}"
        raise UnsupportedFormatError(f"{str(found.path)!r}: {what}")
    tokenizer = HuggingFaceTokenizer(found.path)
    route_of(tokenizer)
    return tokenizer
