"""The hybrid tokenizer: encodes with fastokens, decodes with Hugging Face ``tokenizers``.

In: a ``tokenizer.json``, read once for both. Out: a :class:`~streamdec.HuggingFaceTokenizer` whose
``encode`` is several times faster if fastokens (extra ``fast``) gives the same ids. That is checked
before fastokens is used: by static rules, and by comparing the ids of a few thousand strings. If
fastokens cannot be used, the Hugging Face library encodes, and ``report`` says why.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self, get_args

from streamdec import hooks
from streamdec.backends._common import guarded
from streamdec.backends._fastokens import FastEncoder
from streamdec.backends._fastokens_check import FastokensCheck, Stopped
from streamdec.backends._tokenizer_json import read_json
from streamdec.backends.assembled import Assembled
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.tokenizer_report import FastMode, RequestedBy, TokenizerReport, versions_of
from streamdec.encoding import Encoding, Special
from streamdec.errors import (
    MissingExtraError,
    StreamdecWarning,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from streamdec.hooks import FallbackReason, FellBack, tell

__all__ = ["MODES", "VARIABLE", "FastOptions", "HybridTokenizer"]

VARIABLE = "STREAMDEC_FAST"
MODES: tuple[FastMode, ...] = get_args(FastMode)
"""The values of ``fast``."""
_LISTED = ", ".join(MODES)
_INLINE_CHARS = 32_768
_DIFFERING_KEPT = 10
_PENDING = "fastokens is being built and compared in the background"
_FORKED = "the process was forked before fastokens was ready"
_log = logging.getLogger("streamdec")


@dataclass(frozen=True, slots=True)
class FastOptions:
    """Checked options of a hybrid tokenizer, with the environment applied."""

    fast: FastMode = "background"
    requested_by: RequestedBy = "default"
    strict: bool = False

    @classmethod
    def of(cls, fast: str | None = None, *, strict: bool = False, stacklevel: int = 2) -> Self:
        """Check the options of :class:`HybridTokenizer`.

        ``stacklevel`` says which caller a warning about the environment points to. Raises
        ValueError if an option is not valid.
        """
        if fast is not None and fast not in MODES:
            raise ValueError(f"fast must be one of {_LISTED}, got {fast!r:.40}")
        if strict and fast != "now":
            raise ValueError(f"strict=True needs fast='now', got fast={fast!r}")
        if fast is not None:
            return cls(fast, "argument", strict)
        value = os.environ.get(VARIABLE, "").strip().lower()
        if not value:
            return cls()
        for mode in MODES:
            if value == mode:
                return cls(mode, "environment")
        message = f"{VARIABLE} must be one of {_LISTED}, got {value!r:.40}: it is ignored"
        warnings.warn(message, StreamdecWarning, stacklevel=stacklevel)
        return cls()


class HybridTokenizer(HuggingFaceTokenizer):
    """A ``tokenizer.json`` that fastokens encodes wherever that gives the same ids.

    Args:
        source: A path or the JSON itself, as for :class:`~streamdec.HuggingFaceTokenizer`.
        fast: When fastokens is built and compared, which takes three to five times as long as
            loading: in the ``"background"``, in a thread, while huggingface encodes; ``"now"``,
            before the constructor returns; or ``"off"``, never. The default is the environment's
            ``STREAMDEC_FAST``, else ``"background"``.
        strict: Raise if fastokens cannot be used. Needs ``fast="now"``.
        apply_tokenizer_config: As for :class:`~streamdec.HuggingFaceTokenizer`.

    The ids are the same in every mode. In the background, huggingface encodes until fastokens is
    ready; :meth:`wait` waits for that. A process that is forked earlier keeps using huggingface in
    the child. A program that ends earlier waits for one step of the work.

    Threads may share the tokenizer. Pickling keeps how it was loaded; unpickling costs as much as
    loading.

    Raises ValueError for an invalid option; with ``strict`` :class:`~streamdec.MissingExtraError`
    and :class:`~streamdec.TokenizerLoadError`; and what :class:`~streamdec.HuggingFaceTokenizer`
    raises. An invalid value in the environment is ignored with a warning.

    >>> from streamdec import HybridTokenizer
    >>> tokenizer = HybridTokenizer("path/to/model", fast="off")
    >>> tokenizer.report.active, tokenizer.report.reason
    ('huggingface', 'fastokens is switched off')
    """

    report: TokenizerReport
    """What was requested, what encodes, and why. It is replaced when that changes."""

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        fast: FastMode | None = None,
        strict: bool = False,
        apply_tokenizer_config: bool | None = None,
    ) -> None:
        options = FastOptions.of(fast, strict=strict, stacklevel=3)
        self._load(source, options, apply_tokenizer_config=apply_tokenizer_config)

    @classmethod
    def from_file(
        cls,
        path: Path,
        options: FastOptions,
        *,
        apply_tokenizer_config: bool | None,
        is_folder: bool,
        revision: str | None = None,
    ) -> Self:
        """Return the tokenizer of the ``tokenizer.json`` in ``path``.

        Args:
            path: The file, which may have any name.
            options: Checked options.
            apply_tokenizer_config: Whether the files beside ``path`` are read as well; None means
                ``is_folder``.
            is_folder: Whether the caller named the folder of ``path``.
            revision: The commit, for the report.

        Raises what :class:`~streamdec.HuggingFaceTokenizer` raises.
        """
        self = cls.__new__(cls)
        config = apply_tokenizer_config
        self._load(
            path,
            options,
            apply_tokenizer_config=config,
            is_folder=is_folder,
            revision=revision,
        )
        return self

    def _load(
        self,
        source: str | os.PathLike[str],
        options: FastOptions,
        *,
        apply_tokenizer_config: bool | None,
        is_folder: bool = False,
        revision: str | None = None,
    ) -> None:
        started = perf_counter()
        content, name, path = read_json(source)
        sha256 = self._take(content, name, path, apply_tokenizer_config, is_folder=is_folder)
        content_of = (lambda: content) if not self.tokenizer_config_changes else self._as_json
        self._report_loading("huggingface", sha256, started, revision, options)
        self._begin(content_of, options)

    @classmethod
    def from_assembled(
        cls,
        made: Assembled,
        path: Path,
        options: FastOptions,
        *,
        form: str,
        revision: str | None = None,
    ) -> Self:
        """Return the tokenizer of a ``tokenizer.json`` that was made in memory.

        Args:
            made: The JSON and what belongs to it.
            path: The file that it was made from.
            options: Checked options.
            form: The format of that file, for the report.
            revision: The commit, for the report.

        Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason.
        """
        self = cls.__new__(cls)
        started = perf_counter()
        self._take_assembled(made, path)
        self._report_loading(form, made.sha256, started, revision, options)
        self._begin(self._as_json, options)
        return self

    def _as_json(self) -> bytes:
        return guarded(self._tokenizer.to_str).encode()

    def _report_loading(
        self,
        form: str,
        sha256: bytes,
        started: float,
        revision: str | None,
        options: FastOptions,
    ) -> None:
        self.report = TokenizerReport(
            format=form,
            requested=options.fast,
            requested_by=options.requested_by,
            active="huggingface",
            reason="fastokens is switched off",
            versions=versions_of(("tokenizers", "fastokens")),
            sha256=sha256.hex(),
            revision=revision,
            seconds={"huggingface": perf_counter() - started},
        )

    def _begin(self, content: Callable[[], bytes], options: FastOptions) -> None:
        self._options = options
        self._fast: FastEncoder | None = None
        self._guarded = ""
        self._settled = threading.Event()
        self._pid = os.getpid()
        if options.fast == "off":
            self._settled.set()
            return
        check = FastokensCheck(
            self._tokenizer,
            content,
            renumbered=self._renumbered,
            slow_ids=self.slow_ids,
            is_stopped=self._is_stopped,
        )
        try:
            check.check_rules()
        except (MissingExtraError, TokenizerLoadError) as error:
            self._fall_back(check, error)
            return
        if options.fast == "now":
            self._settle(check)
            return
        self.report = replace(self.report, reason=_PENDING)
        # Not a daemon thread: killing one inside a library's code aborts the process.
        thread = threading.Thread(target=self._settle, args=(check,), name="streamdec-fast")
        try:
            thread.start()
        except RuntimeError as error:
            no_thread = TokenizerLoadError(f"no thread to build fastokens in: {error}")
            self._fall_back(check, no_thread)

    def __getstate__(self) -> dict[str, Any]:
        """The library's tokenizer, and how it was loaded."""
        return {
            **super().__getstate__(),
            "options": replace(self._options, strict=False),
            "report": self.report,
            "wants_fast": self._fast is not None or not self._settled.is_set(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.report = state["report"]
        options: FastOptions = state["options"]
        if state["wants_fast"]:
            # Checked again, because another version of fastokens may be installed here.
            self.report = replace(self.report, active="huggingface", guarded="", differing=())
            self._begin(self._as_json, options)
        else:
            self._begin(self._as_json, replace(options, fast="off"))

    # --- which library encodes --------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> TokenizerReport:
        """Wait until it is decided which library encodes, and return the report.

        ``timeout`` is in seconds; None waits as long as necessary. Raises TimeoutError after it;
        huggingface still encodes then, and :meth:`wait` can be called again.
        """
        if self._settled.is_set():
            return self.report
        if self._pid != os.getpid():  # the thread exists in the parent only
            self.report = replace(self.report, reason=_FORKED)
            self._settled.set()
        elif not self._settled.wait(timeout):
            raise TimeoutError(f"{self.name!r}: {self.report.reason}, for {timeout:g} seconds now")
        return self.report

    def _settle(self, check: FastokensCheck) -> None:
        """Build and compare fastokens, and use it if it gives the same ids."""
        try:
            encoder = check.build_and_compare()
        except Stopped:
            self.report = replace(self.report, reason="the program is ending")
        except TokenizerLoadError as error:
            self._fall_back(check, error)
        else:
            self.inline_chars = _INLINE_CHARS
            # The guard is set before the encoder: other threads may be encoding.
            self._guarded = check.guarded
            self._fast = encoder
            reason = f"the same ids for {check.probes} strings"
            self.report = replace(self._report_on(check, reason), active="fastokens")
        finally:
            self._settled.set()

    def _fall_back(self, check: FastokensCheck, error: Exception) -> None:
        """Report and log why huggingface encodes; raise it if ``strict``."""
        if self._options.strict:
            raise type(error)(f"{self.name!r}: {error}") from error
        self.report = self._report_on(check, str(error))
        self._tell("missing" if isinstance(error, MissingExtraError) else "refused")
        _log.info("%r: %s", self.name, self.report)
        self._settled.set()

    def _report_on(self, check: FastokensCheck, reason: str) -> TokenizerReport:
        return replace(
            self.report,
            reason=reason,
            guarded=check.guarded,
            probes=check.probes,
            differing=tuple(check.differing[:_DIFFERING_KEPT]),
            seconds={**self.report.seconds, **check.seconds},
        )

    def _tell(self, reason: FallbackReason) -> None:
        tell(hooks.installed, "fell_back", FellBack(self.tokenizer_type, reason))

    def _is_stopped(self) -> bool:
        """Whether the program is about to end and waits for the thread that builds."""
        return self._options.fast == "background" and not threading.main_thread().is_alive()

    # --- encoding ---------------------------------------------------------------------------------

    def _batch_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        fast = self._fast
        is_free = not self._guarded or not any(self._guarded in text for text in texts)
        if fast is None or not is_free:
            return super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        # The caller handles "forbid".
        as_what: Literal["parse", "text"] = "text" if special == "text" else "parse"
        try:
            return fast.ids(texts, add_special_tokens=add_special_tokens, special=as_what)
        except TokenizerLibraryError as error:
            # A failure of fastokens must not fail the request.
            _log.warning("%r: huggingface encodes, as %s", self.name, error)
            self._tell("fails")
            return super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)

    @property
    def fast_encoder(self) -> FastEncoder | None:
        """The fastokens encoder if it is in use, else None; for comparisons."""
        return self._fast

    def slow_ids(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        special: Literal["parse", "text"] = "parse",
    ) -> list[bytes]:
        """Return the ids that huggingface gives for ``texts``, four bytes each, little-endian.

        For comparisons; ``add_special_tokens`` and ``special`` are as for ``encode``. Raises
        :class:`~streamdec.TokenizerLibraryError` if the library fails.
        """
        found = super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        return [bytes(Encoding(ids)) for ids in found]
