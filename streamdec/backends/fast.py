"""The hybrid: encodes with fastokens, decodes with Hugging Face ``tokenizers``.

In: a ``tokenizer.json``, read once for both. Out: a :class:`HuggingFaceTokenizer` whose ``encode``
is several times faster where fastokens (extra ``fast``) gives the same ids, which is found out at
load: by static rules, and by comparing a few thousand strings. Where it does not, or is not there,
the other library encodes, and ``report`` says why.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import warnings
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from time import perf_counter
from typing import Any, Literal

from streamdec.backends._guard import guarded
from streamdec.backends._probes import GUARDED, probes_of, static_faults
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import (
    MissingExtraError,
    StreamdecWarning,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from streamdec.protocols import Special

__all__ = ["HybridTokenizer", "Report"]

Backend = Literal["auto", "fastokens", "huggingface"]

VARIABLE = "STREAMDEC_TOKENIZER"
_NAMES: Mapping[str, Backend] = {
    "auto": "auto",
    "fastokens": "fastokens",
    "huggingface": "huggingface",
    "default": "huggingface",  # Dynamo's name for it
}
_KNOWN = ", ".join(_NAMES)
_INSTALL = "fastokens is not installed: pip install 'streamdec[fast]'"
_INLINE_CHARS = 32_768
_log = logging.getLogger("streamdec")


@dataclass(frozen=True, slots=True)
class Report:
    """Which library encodes, and why."""

    requested: Backend
    """What was asked for."""
    active: Literal["fastokens", "huggingface"]
    """What encodes."""
    reason: str
    """Why, in a sentence."""
    guarded: str
    """Characters whose texts are encoded by huggingface all the same."""
    probes: int
    """How many strings were compared."""
    differing: tuple[str, ...]
    """The first of those that differed."""
    versions: Mapping[str, str]
    """The libraries'."""
    sha256: str
    """Of the tokenizer.json, in hexadecimal."""
    seconds: Mapping[str, float]
    """What loading and probing took."""


class HybridTokenizer(HuggingFaceTokenizer):
    """A ``tokenizer.json`` whose encoding is fast where that changes no id.

    ``source`` is a path or the JSON itself, as for :class:`HuggingFaceTokenizer`. ``backend`` is
    ``"auto"`` (fastokens if it is installed and trusted), ``"fastokens"`` (the same, but a WARNING
    is logged if it cannot serve, not an INFO), ``"huggingface"`` or ``"default"``; without it the
    environment's ``STREAMDEC_TOKENIZER`` says which, and else it is ``"auto"``. With ``strict`` it
    is an error if fastokens cannot serve though it was not ruled out.

    Raises ValueError for an unknown ``backend``; with ``strict`` :class:`MissingExtraError` and
    :class:`TokenizerLoadError`; and what :class:`HuggingFaceTokenizer` raises. An unknown value in
    the environment is one warning.

    >>> HybridTokenizer("/path/to/model").report.active  # doctest: +SKIP
    'fastokens'
    """

    report: Report
    """What was asked for, what is active, and why."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        backend: str | None = None,
        strict: bool = False,
    ) -> None:
        requested = _requested(backend)
        started = perf_counter()
        content = self._open_content(source)
        loaded = perf_counter()
        self._fast: Any = None
        self._guarded = ""
        self._probed = 0
        self._differing: tuple[str, ...] = ()
        reason = "it was asked for"
        if requested != "huggingface":
            reason = self._try_fast(content, strict=strict)
        active: Literal["fastokens", "huggingface"] = (
            "fastokens" if self._is_fast else "huggingface"
        )
        self.inline_chars = _INLINE_CHARS if self._is_fast else type(self).inline_chars
        self.report = Report(
            requested,
            active,
            reason,
            self._guarded,
            self._probed,
            self._differing,
            _versions(),
            hashlib.sha256(content).hexdigest(),
            {"huggingface": loaded - started, "fastokens": perf_counter() - loaded},
        )
        if requested != "huggingface" and not self._is_fast:
            level = logging.WARNING if requested == "fastokens" else logging.INFO
            _log.log(level, "%s: huggingface encodes: %s", self.name, reason)

    @property
    def _is_fast(self) -> bool:
        return self._fast is not None

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a HybridTokenizer cannot be pickled: load it where it is needed")

    # --- trust ------------------------------------------------------------------------------------

    def _try_fast(self, content: bytes, *, strict: bool) -> str:
        """Uses fastokens if it is to be trusted; says why it is used or not."""
        try:
            return self._trust(content)
        except (MissingExtraError, TokenizerLoadError) as error:
            if strict:
                raise
            return str(error)

    def _trust(self, content: bytes) -> str:
        text = content.decode("utf-8-sig")
        # The library has read it, so it is JSON.
        if faults := list(static_faults(json.loads(text), self._tokenizer)):
            raise TokenizerLoadError(f"fastokens may give other ids: {faults[0]}")
        fast = _load(text)
        self._compare(fast)
        strangers = [probe for probe in self._differing if GUARDED not in probe]
        if strangers:
            raise TokenizerLoadError(f"fastokens gives other ids for {strangers[0]!r:.200}")
        self._guarded = GUARDED if self._differing else ""
        self._fast = fast
        return f"the same ids for {self._probed} strings"

    def _compare(self, fast: Any) -> None:
        probes = probes_of(self._tokenizer)
        different: dict[str, None] = {}
        for add in (False, True):
            found = self._fast_ids(fast, probes, add_special_tokens=add)
            expected = super()._batch_ids(probes, "parse", add_special_tokens=add)
            for probe, own, others in zip(probes, found, expected, strict=True):
                if own != array("I", others).tobytes():
                    different[probe] = None
        self._probed, self._differing = len(probes), tuple(different)

    # --- encoding ---------------------------------------------------------------------------------

    def _batch_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        fast = self._fast
        is_free = not self._guarded or not any(self._guarded in text for text in texts)
        if fast is not None and special != "text" and is_free:
            try:
                return self._fast_ids(fast, texts, add_special_tokens=add_special_tokens)
            except TokenizerLibraryError as error:
                # A request is never dropped because the fast way failed.
                _log.warning("%s: huggingface encodes, as %s", self.name, error)
        return super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)

    @staticmethod
    def _fast_ids(fast: Any, texts: Sequence[str], *, add_special_tokens: bool) -> list[bytes]:
        """The ids of each text as a buffer. This call alone lets other threads run meanwhile."""
        encode = fast.encode_batch_flat
        data, ends = guarded(encode, list(texts), add_special_tokens=add_special_tokens)
        if len(texts) == 1:
            return [data]
        places = memoryview(ends).cast("Q").tolist()
        return [data[4 * places[i] : 4 * places[i + 1]] for i in range(len(texts))]


def _requested(backend: str | None) -> Backend:
    if backend is not None:
        name = _NAMES.get(str(backend).strip().lower())
        if name is None:
            raise ValueError(f"backend must be one of {_KNOWN}, not {backend!r:.40}")
        return name
    value = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    if value not in _NAMES:
        message = f"{VARIABLE} is {value!r:.40}, not one of {_KNOWN}: taken as auto"
        warnings.warn(message, StreamdecWarning, stacklevel=4)
    return _NAMES.get(value, "auto")


def _load(text: str) -> Any:
    try:
        from fastokens import Tokenizer
    except ImportError as error:
        raise MissingExtraError(_INSTALL) from error
    try:
        fast = guarded(Tokenizer.from_json_str, text)
        guarded(fast.no_truncation)
        guarded(fast.no_padding)
    except TokenizerLibraryError as error:
        raise TokenizerLoadError(f"fastokens cannot load it: {error.__cause__}") from error
    return fast


def _versions() -> dict[str, str]:
    found = {}
    for name in ("tokenizers", "fastokens"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
