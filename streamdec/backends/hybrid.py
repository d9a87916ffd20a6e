"""The hybrid: encodes with fastokens, decodes with Hugging Face ``tokenizers``.

In: a ``tokenizer.json``, read once for both. Out: a :class:`~streamdec.HuggingFaceTokenizer` whose
``encode`` is several times faster where fastokens (extra ``fast``) gives the same ids, which is
found out before it is used: by static rules, and by comparing a few thousand strings. Where it does
not, or is not there, the other library encodes, and ``report`` says why.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self

from streamdec import hooks
from streamdec.backends._fastokens import FastEncoder
from streamdec.backends._guard import guarded
from streamdec.backends._shadow import Mode, OnMismatch, Shadow, ShadowCounts
from streamdec.backends._tokenizer_json import read_json
from streamdec.backends._trial import Stopped, Trial
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.report import Backend, TokenizerReport, versions_of
from streamdec.encoding import Encoding, Special
from streamdec.errors import (
    MissingExtraError,
    StreamdecWarning,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from streamdec.hooks import FallbackReason, FellBack, tell

__all__ = ["BACKENDS", "VARIABLE", "Fast", "FastOptions", "HybridTokenizer"]

Fast = Literal["now", "background", "lazy"]
"""When fastokens is built and compared: while loading, in a thread, or at the first text."""

VARIABLE = "STREAMDEC_TOKENIZER"
BACKENDS: Mapping[str, Backend] = {
    "auto": "auto",
    "fastokens": "fastokens",
    "huggingface": "huggingface",
    "default": "huggingface",  # Dynamo's name for it
}
"""What may be asked for, by the names it goes by."""
_KNOWN = ", ".join(BACKENDS)
_INLINE_CHARS = 32_768
_DIFFERING_KEPT = 10
_PENDING = {
    "background": "fastokens is being built and compared in the background",
    "lazy": "fastokens is built and compared when the first text is encoded",
}
_log = logging.getLogger("streamdec")


@dataclass(frozen=True, slots=True)
class FastOptions:
    """How a ``tokenizer.json`` is to be encoded; checked, and the environment asked."""

    backend: Backend = "auto"
    asked_by: Literal["argument", "environment", "default"] = "default"
    strict: bool = False
    fast: Fast = "now"
    shadow_rate: float = 0.0
    on_mismatch: OnMismatch = "disable"

    @classmethod
    def of(
        cls,
        backend: str | None = None,
        *,
        strict: bool = False,
        fast: Fast = "now",
        shadow_rate: float = 0.0,
        on_mismatch: OnMismatch = "disable",
        stacklevel: int = 2,
    ) -> Self:
        """The options as :class:`HybridTokenizer` takes them. ValueError for what none of them is.

        ``stacklevel`` is whose call a warning of the environment is about.
        """
        if fast not in ("now", "background", "lazy"):
            raise ValueError(f"fast must be 'now', 'background' or 'lazy', not {fast!r:.40}")
        if on_mismatch not in ("disable", "warn", "raise"):
            raise ValueError(
                f"on_mismatch must be 'disable', 'warn' or 'raise', not {on_mismatch!r:.40}"
            )
        if not 0 <= shadow_rate <= 1:
            raise ValueError(f"shadow_rate must be from 0 to 1, not {shadow_rate!r:.40}")
        if strict and fast != "now":
            raise ValueError(f"strict=True raises while loading: it needs fast='now', not {fast!r}")
        if backend is not None:
            name = BACKENDS.get(str(backend).strip().lower())
            if name is None:
                raise ValueError(f"backend must be one of {_KNOWN}, not {backend!r:.40}")
            return cls(name, "argument", strict, fast, shadow_rate, on_mismatch)
        name = _of_environment(stacklevel)
        by: Literal["environment", "default"] = "default" if name is None else "environment"
        return cls(name or "auto", by, strict, fast, shadow_rate, on_mismatch)


def _of_environment(stacklevel: int) -> Backend | None:
    """What the environment asks for; None for nothing, or nothing that is known."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    if value and value not in BACKENDS:
        message = f"{VARIABLE} is {value!r:.40}, not one of {_KNOWN}: taken as auto"
        warnings.warn(message, StreamdecWarning, stacklevel=stacklevel + 1)
    return BACKENDS.get(value)


class HybridTokenizer(HuggingFaceTokenizer):
    """A ``tokenizer.json`` whose encoding is fast where that changes no id.

    Args:
        source: a path or the JSON itself, as for :class:`~streamdec.HuggingFaceTokenizer`.
        backend: ``"auto"`` (fastokens if it is installed and trusted), ``"fastokens"`` (the same,
            but a WARNING is logged if it cannot serve, not an INFO), ``"huggingface"`` or
            ``"default"``. Without it the environment's ``STREAMDEC_TOKENIZER`` says which, and else
            it is ``"auto"``.
        strict: whether it is an error if fastokens cannot serve though it was not ruled out.
        fast: when fastokens is built and compared, which takes three to five times what loading
            takes: ``"now"``; in the ``"background"``, in a thread, while huggingface serves (a
            process that is forked meanwhile stays with huggingface, and one that ends waits for a
            step of it); or ``"lazy"``, when the first text is encoded, which is never in a process
            that only decodes.
        shadow_rate: the share of texts, from 0 to 1, that are encoded by huggingface as well, in a
            thread, after their ids were given out.
        on_mismatch: what follows if those ids differ: ``"disable"`` (huggingface encodes from then
            on), ``"warn"`` (a log line each), or ``"raise"``, for which the caller waits, and gets
            a :class:`~streamdec.TokenizerLibraryError`.
        apply_tokenizer_config: as for :class:`~streamdec.HuggingFaceTokenizer`.

    Threads may share it. Pickled, it takes along how it was loaded; unpickling costs what loading
    costs.

    Raises ValueError for an unknown ``backend`` or another bad option; with ``strict``
    :class:`~streamdec.MissingExtraError` and :class:`~streamdec.TokenizerLoadError`; and what
    :class:`~streamdec.HuggingFaceTokenizer` raises. An unknown value in the environment is one
    warning.

    >>> from streamdec import HybridTokenizer
    >>> tokenizer = HybridTokenizer("path/to/model", backend="huggingface")
    >>> tokenizer.report.active, tokenizer.report.reason
    ('huggingface', 'it was asked for')
    """

    report: TokenizerReport
    """What was asked for, what is active, and why. It is replaced when that changes."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        backend: str | None = None,
        strict: bool = False,
        fast: Fast = "now",
        shadow_rate: float = 0.0,
        on_mismatch: OnMismatch = "disable",
        apply_tokenizer_config: bool | None = None,
    ) -> None:
        options = FastOptions.of(
            backend,
            strict=strict,
            fast=fast,
            shadow_rate=shadow_rate,
            on_mismatch=on_mismatch,
            stacklevel=3,
        )
        self._load(*read_json(source), options, apply_tokenizer_config=apply_tokenizer_config)

    @classmethod
    def from_content(
        cls,
        content: bytes,
        path: Path,
        options: FastOptions,
        *,
        apply_tokenizer_config: bool = False,
        revision: str | None = None,
    ) -> Self:
        """Make the tokenizer of a file that was read, and unpacked if it was packed.

        Args:
            content: The bytes of the ``tokenizer.json``.
            path: Where the file is.
            options: Checked options.
            apply_tokenizer_config: Whether the files beside ``path`` are read as well.
            revision: The commit, for the report.

        Raises what :class:`~streamdec.HuggingFaceTokenizer` raises.
        """
        self = cls.__new__(cls)
        self._load(
            content,
            str(path),
            path,
            options,
            apply_tokenizer_config=apply_tokenizer_config,
            revision=revision,
        )
        return self

    def _load(
        self,
        content: bytes,
        name: str,
        path: Path | None,
        options: FastOptions,
        *,
        apply_tokenizer_config: bool | None,
        revision: str | None = None,
    ) -> None:
        started = perf_counter()
        sha256 = self._take(content, name, path, apply_tokenizer_config)
        self.report = TokenizerReport(
            format="huggingface",
            requested=options.backend,
            requested_by=options.asked_by,
            active="huggingface",
            reason="it was asked for",
            versions=versions_of(("tokenizers", "fastokens")),
            sha256=sha256.hex(),
            revision=revision,
            seconds={"huggingface": perf_counter() - started},
        )
        # The changed tokens change ids, so fastokens must see them too.
        is_changed = self.tokenizer_config_changes and options.backend != "huggingface"
        self._begin(guarded(self._tokenizer.to_str).encode() if is_changed else content, options)

    def _begin(self, content: bytes, options: FastOptions) -> None:
        self._options = options
        self._fast: FastEncoder | None = None
        self._guarded = ""
        self._shadow: Shadow | None = None
        # Whoever takes it out decides; nobody waits for another, so a fork leaves nobody waiting.
        self._pending = [content]
        self._settled = threading.Event()
        self._pid = os.getpid()
        if options.backend == "huggingface":
            self._pending.clear()
            self._settled.set()
        elif options.fast == "now":
            self._settle()
        else:
            self.report = replace(self.report, reason=_PENDING[options.fast])
            if options.fast == "background":
                self._settle_in_background()
            else:
                # The first text takes seconds, so it is never encoded on an event loop.
                self.inline_chars: int = 0

    def _settle_in_background(self) -> None:
        # Not a daemon: one that is killed inside of a library takes the process along.
        thread = threading.Thread(target=self._settle, name="streamdec-fast")
        try:
            thread.start()
        except RuntimeError as error:
            self._pending.clear()
            reason = f"no thread to build fastokens in: {error}"
            self._refuse(replace(self.report, reason=reason))
            self._settled.set()

    def __getstate__(self) -> dict[str, Any]:
        """The library's tokenizer, and how it was loaded."""
        is_settled = self._settled.is_set()
        wants_fast = self._fast is not None or not is_settled
        return {
            **super().__getstate__(),
            "options": replace(self._options, strict=False),
            "report": self.report,
            "wants_fast": wants_fast,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.report = state["report"]
        options: FastOptions = state["options"]
        if state["wants_fast"]:
            # It has to earn trust anew: the library may be another where this is unpickled.
            self.report = replace(self.report, active="huggingface", guarded="", differing=())
            self._begin(guarded(self._tokenizer.to_str).encode(), options)
        else:
            self._begin(b"", replace(options, backend="huggingface"))

    # --- which one encodes ------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> TokenizerReport:
        """The report, as soon as it is decided what encodes; a lazy tokenizer decides it now.

        ``timeout`` is in seconds; None waits for as long as it takes. Raises TimeoutError after it;
        the other library serves on, and the wait may be taken up again.
        """
        if self._options.fast == "lazy":
            self._settle()
        # In a process that was forked meanwhile nobody is at work on it.
        if self._pid == os.getpid() and not self._settled.wait(timeout):
            raise TimeoutError(f"{self.name!r}: {self.report.reason}, for {timeout:g} seconds now")
        return self.report

    @property
    def shadow_counts(self) -> ShadowCounts:
        """Of ``shadow_rate``: how many texts were encoded again, left out, and found to differ.

        Three integers, ``(checked, skipped, different)``; zeros without a rate.
        """
        return ShadowCounts(0, 0, 0) if self._shadow is None else self._shadow.counts

    def _settle(self) -> None:
        """Decides which library encodes, once."""
        try:
            content = self._pending.pop()
        except IndexError:
            return
        try:
            self._decide(content)
        finally:
            self._settled.set()

    def _decide(self, content: bytes) -> None:
        trial = Trial(
            self._tokenizer,
            content,
            renumbered=self._renumbered,
            slow_ids=self.slow_ids,
            is_stopped=self._is_stopped,
        )
        options = self._options
        is_missing = False
        try:
            trial.run()
            reason = f"the same ids for {trial.probes} strings"
        except Stopped:
            self.report = replace(self.report, reason="the program was about to end")
            return
        except (MissingExtraError, TokenizerLoadError) as error:
            if options.strict:
                raise type(error)(f"{self.name!r}: {error}") from error
            reason = str(error)
            is_missing = isinstance(error, MissingExtraError)
        report = replace(
            self.report,
            reason=reason,
            guarded=trial.guarded,
            probes=trial.probes,
            differing=tuple(trial.differing[:_DIFFERING_KEPT]),
            seconds={**self.report.seconds, **trial.seconds},
        )
        if not trial.is_trusted:
            self._refuse(report, "missing" if is_missing else "refused")
            return
        if options.shadow_rate:
            is_waited_for = options.on_mismatch == "raise"
            self._shadow = Shadow(
                options.shadow_rate, self._slow_ids, self._mismatch, is_waited_for=is_waited_for
            )
        self.inline_chars = _INLINE_CHARS
        # The guard before what is guarded: other threads may be encoding.
        self._guarded = trial.guarded
        self._fast = trial.encoder
        self.report = replace(report, active="fastokens")

    def _refuse(self, report: TokenizerReport, why: FallbackReason = "refused") -> None:
        """Say why huggingface encodes: in the report, and in one line of the log."""
        self.inline_chars = type(self).inline_chars
        self.report = report
        self._tell(why)
        level = logging.WARNING if self._options.backend == "fastokens" else logging.INFO
        _log.log(level, "%r: %s", self.name, report)

    def _tell(self, reason: FallbackReason) -> None:
        tell(hooks.installed, "fell_back", FellBack(self.tokenizer_type, reason))

    def _is_stopped(self) -> bool:
        """Whether the program is about to end, and waits for the thread that builds."""
        return self._options.fast == "background" and not threading.main_thread().is_alive()

    # --- encoding ---------------------------------------------------------------------------------

    def _batch_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        if self._pending and self._options.fast == "lazy" and any(texts):
            self._settle()
        fast = self._fast
        is_free = not self._guarded or not any(self._guarded in text for text in texts)
        if fast is None or not is_free:
            return super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        # What is forbidden has been refused, or will be by whoever asks for the ids.
        as_what: Literal["parse", "text"] = "text" if special == "text" else "parse"
        try:
            ids = fast.ids(texts, add_special_tokens=add_special_tokens, special=as_what)
        except TokenizerLibraryError as error:
            # A request is never dropped because the fast way failed.
            _log.warning("%r: huggingface encodes, as %s", self.name, error)
            self._tell("fails")
            return super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        if self._shadow is not None:
            self._shadow.sample(texts, ids, (add_special_tokens, as_what))
        return ids

    @property
    def fast_encoder(self) -> FastEncoder | None:
        """What encodes if it is fastokens; for comparisons."""
        return self._fast

    def slow_ids(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        special: Literal["parse", "text"] = "parse",
    ) -> list[bytes]:
        """The ids that huggingface gives for ``texts``, four bytes each, little-endian.

        For comparisons; ``add_special_tokens`` and ``special`` are as for ``encode``. Raises
        :class:`~streamdec.TokenizerLibraryError` if the library fails.
        """
        found = super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        return [bytes(Encoding(ids)) for ids in found]

    def _slow_ids(self, text: str, mode: Mode) -> bytes:
        add, special = mode
        return self.slow_ids([text], add_special_tokens=add, special=special)[0]

    def _mismatch(self, difference: str) -> None:
        """What ``on_mismatch`` says of a difference that was found at run time."""
        message = f"fastokens gave other ids at run time: {difference}"
        self._tell("differs")
        on_mismatch = self._options.on_mismatch
        if on_mismatch == "raise":
            raise TokenizerLibraryError(f"{self.name!r}: {message}")
        if on_mismatch == "disable":
            self._fast = None
            self.inline_chars = type(self).inline_chars
            self.report = replace(self.report, active="huggingface", reason=message)
            message = f"{self.report}"
        _log.warning("%r: %s", self.name, message)
