"""The report of a tokenizer: which library encodes, why, and what was loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, runtime_checkable

from streamdec.tokenizers._chat import ChatTokenizer

__all__ = ["FastMode", "LoadedTokenizer", "TokenizerReport", "versions_of"]

FastMode = Literal["off", "now", "background"]
"""When fastokens is built and compared: never, before loading returns, or in a thread when it is
worth it."""


@dataclass(frozen=True)
class TokenizerReport:
    """The library that encodes, and the reason.

    ``tokenizer.fingerprint`` identifies what decodes. A report is plain data, which can be pickled;
    ``str()`` is a sentence.

    >>> from streamdec import load_tokenizer
    >>> report = load_tokenizer("demo", fast="off").report
    >>> report.format, report.requested, report.active
    ('huggingface', 'off', 'huggingface')
    """

    format: str
    """The format of the file, as ``detect_format`` names it."""
    requested: FastMode
    """The requested mode of fastokens; without effect for formats that it cannot encode for."""
    active: str
    """What encodes: fastokens, huggingface, tiktoken, sentencepiece, gguf or transformers."""
    reason: str
    """Why this library encodes, in a phrase."""
    sha256: str | None = None
    """SHA-256 of the unpacked file, in hexadecimal; None if the file was not read whole."""
    revision: str | None = None
    """The commit, for a file from the Hub."""

    def __str__(self) -> str:
        return f"{self.active} encodes: {self.reason}"


@runtime_checkable
class LoadedTokenizer(ChatTokenizer, Protocol):
    """A tokenizer with a report, which :func:`~streamdec.load_tokenizer` returns.

    >>> from streamdec import load_tokenizer
    >>> from streamdec.tokenizers import LoadedTokenizer
    >>> tokenizer: LoadedTokenizer = load_tokenizer("demo")
    >>> tokenizer.report.format
    'huggingface'
    """

    @property
    def report(self) -> TokenizerReport:
        """What was requested, what encodes, and why. It is replaced when that changes."""
        ...


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of streamdec, Python and the installed ``libraries``."""
    installed = {name: _version_of(name) for name in ("streamdec", *libraries)}
    known = {name: version for name, version in installed.items() if version is not None}
    return {"python": sys.version.split()[0], **known}


@cache
def _version_of(name: str) -> str | None:
    from importlib import metadata  # takes longer to import than the rest of this module

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
