"""What a tokenizer says of itself: which library encodes, why, and what it was made of.

In: what was asked for and what was found, by whoever loads a tokenizer. Out: plain data.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, Literal, Protocol, overload, runtime_checkable

from streamdec.backends._chat import ChatRenderer, NewTemplate
from streamdec.protocols import Tokenizer

__all__ = ["Backend", "LoadedTokenizer", "TokenizerReport", "versions_of"]

Backend = Literal["auto", "fastokens", "huggingface"]
"""What may be asked for."""


@dataclass(frozen=True)
class TokenizerReport:
    """Which library encodes, and why. What decodes is told by ``tokenizer.fingerprint``.

    Plain data, which can be pickled; ``str()`` is a sentence.

    >>> from streamdec import load_tokenizer
    >>> report = load_tokenizer("path/to/model", backend="huggingface").report
    >>> report.format, report.requested_by, report.active
    ('huggingface', 'argument', 'huggingface')
    """

    format: str
    """What the file is, as ``detect_format`` names it."""
    requested: Backend
    """Which encoder was asked for."""
    requested_by: Literal["argument", "environment", "default"]
    """Where that was said."""
    active: str
    """What encodes: fastokens, huggingface, tiktoken, sentencepiece or gguf."""
    reason: str
    """Why, in a sentence."""
    guarded: str = ""
    """Characters whose texts are encoded by huggingface all the same."""
    probes: int = 0
    """How many strings were compared."""
    differing: tuple[str, ...] = ()
    """The first of those that differed."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of streamdec, Python and the libraries."""
    sha256: str | None = None
    """Of the content of the file, unpacked, in hexadecimal; None if it was not read whole."""
    revision: str | None = None
    """The commit, if the file is from the Hub."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What each library took to load, and the comparison (``"probes"``), in seconds."""

    def __str__(self) -> str:
        return f"{self.active} encodes: {self.reason}"


@runtime_checkable
class LoadedTokenizer(Tokenizer, Protocol):
    """A tokenizer that tells how it was loaded: what :func:`~streamdec.load_tokenizer` gives.

    A protocol: the methods are those of the backends, such as
    :class:`~streamdec.HuggingFaceTokenizer`, where each is described.

    >>> from streamdec import LoadedTokenizer, load_tokenizer
    >>> tokenizer: LoadedTokenizer = load_tokenizer("path/to/model")
    >>> tokenizer.report.format, isinstance(tokenizer, LoadedTokenizer)
    ('huggingface', True)
    """

    @property
    def report(self) -> TokenizerReport:
        """What was asked for, what is active, and why. Replaced where that changes later."""
        ...

    def get_chat_template(self, *, fallback: Literal["simple"] | None = None) -> ChatRenderer:
        """The chat template, which says where it is from.

        ``fallback="simple"`` gives lines of role and content where there is none; without it that
        is a :class:`~streamdec.ChatTemplateError`.
        """
        ...

    def set_chat_template(self, template: NewTemplate | None = None, **options: Any) -> None:
        """Render with ``template`` from now on; None is that of the files.

        ``options`` are those of :class:`~streamdec.chat.ChatTemplate`.
        """
        ...

    @overload
    def apply_chat_template(
        self, messages: Iterable[Any], *, tokenize: Literal[False] = False, **options: Any
    ) -> str: ...

    @overload
    def apply_chat_template(
        self, messages: Iterable[Any], *, tokenize: Literal[True], **options: Any
    ) -> list[int]: ...

    def apply_chat_template(
        self, messages: Iterable[Any], *, tokenize: bool = False, **options: Any
    ) -> str | list[int]:
        """``messages``, a conversation, as the text of a prompt, or with ``tokenize`` as its ids.

        ``options`` are those of :meth:`streamdec.chat.ChatTemplate.render`. Raises
        :class:`~streamdec.ChatTemplateError`.
        """
        ...


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of streamdec, of Python, and of those of ``libraries`` that are installed."""
    installed = {name: _version_of(name) for name in ("streamdec", *libraries)}
    known = {name: version for name, version in installed.items() if version is not None}
    return {"python": platform.python_version(), **known}


@cache
def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
