"""The hybrid tokenizer: encodes with fastokens, decodes with ``tokenizers``.

In: a ``tokenizer.json``, read once for both. Out: a :class:`~streamdec.HuggingFaceTokenizer` whose
``encode`` is several times faster if fastokens (extra ``fast``) gives the same ids. Static rules
and the ids of a few thousand strings show that before fastokens is used. Otherwise the Hugging Face
library encodes, and ``report`` has the reason.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Self, get_args

from streamdec import hooks
from streamdec.backends._tokenizer_json import Source, read_source
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.encoding import Special
from streamdec.errors import MissingExtraError, TokenizerLibraryError, TokenizerLoadError, warn
from streamdec.fastpath._fastokens import GUARDED, FastEncoder, Stopped
from streamdec.hooks import FallbackReason, FellBack, tell
from streamdec.tokenizers.tokenizer_report import FastMode, TokenizerReport

__all__ = ["HybridTokenizer"]

VARIABLE = "STREAMDEC_FAST"
MODES: tuple[FastMode, ...] = get_args(FastMode)
"""The values of ``fast``."""
_LISTED = ", ".join(MODES)
WORTH = 2**18
"""The code points that are encoded before fastokens is built in the background. It is then repaid
within ten texts of this length: huggingface needs 0.7 µs for a code point, and the build 0.6 to 2
seconds."""
_OFF = "fastokens is switched off"
_LATER = f"fastokens is built in the background after {WORTH:,} code points"
_SAME = "the same ids for a few thousand strings; huggingface encodes texts with U+180E"
_PENDING = "fastokens is being built and compared in the background"
_log = logging.getLogger("streamdec")


def mode_of(fast: FastMode | None) -> FastMode:
    """Return ``fast``; None means the environment. Raises ValueError for another value."""
    if fast is not None:
        if fast not in MODES:
            raise ValueError(f"fast must be one of {_LISTED}, got {fast!r:.40}")
        return fast
    value = os.environ.get(VARIABLE, "").strip().lower()
    if value in MODES:
        return value
    if value:
        warn(
            f"the environment variable {VARIABLE} must be one of {_LISTED}, got {value!r:.40}: "
            "it is ignored, and 'background' is used"
        )
    return "background"


class HybridTokenizer(HuggingFaceTokenizer):
    """A ``tokenizer.json`` that fastokens encodes wherever that gives the same ids.

    Args:
        source: A path or the JSON itself, as for :class:`~streamdec.HuggingFaceTokenizer`.
        fast: When fastokens is built and compared, which takes several times as long as
            loading. ``"background"``: in a thread, when texts of 262,144 code points were encoded.
            ``"now"``: before the constructor returns. ``"off"``: never. The default is the
            environment variable ``STREAMDEC_FAST``, or else ``"background"``.
        apply_tokenizer_config: As for :class:`~streamdec.HuggingFaceTokenizer`.

    The ids are the same in every mode. Until fastokens is ready, huggingface encodes, and in a
    process that forks during the build it still does. ``wait()`` begins the build and waits for it.
    Threads may share the tokenizer. Unpickling compares fastokens again.

    Raises ValueError for an invalid option, and the errors of
    :class:`~streamdec.HuggingFaceTokenizer`.

    >>> from streamdec.tokenizers import HybridTokenizer
    >>> tokenizer = HybridTokenizer("path/to/model", fast="off")
    >>> tokenizer.report.active, tokenizer.report.reason
    ('huggingface', 'fastokens is switched off')
    """

    report: TokenizerReport
    """What was requested, what encodes, and why. It is replaced when that changes."""
    _trial: Callable[[], None] | None
    """For a file of a stranger: builds fastokens in a child process."""
    _fast: FastEncoder | None
    _waiting: list[Callable[[], None]]
    """``_settle`` until it is worth it, in a list from which one thread takes it."""
    _encoded: int
    """The code points that were encoded since loading."""
    _settled: threading.Event
    """Set once it is decided which library encodes."""
    _pid: int

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        fast: FastMode | None = None,
        apply_tokenizer_config: bool | None = None,
    ) -> None:
        self._load(read_source(source, apply_tokenizer_config), mode_of(fast), "huggingface")

    def _load(
        self,
        source: Source,
        fast: FastMode,
        form: str,
        revision: str | None = None,
        trial: Callable[[], None] | None = None,
    ) -> Self:
        """Load ``source``, a file of the format ``form``; return this tokenizer."""
        self._take(source)
        self.report = TokenizerReport(form, fast, "huggingface", _OFF, source.sha256, revision)
        self._trial = trial
        self._begin(fast)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The library's tokenizer, and how it was loaded. A refusal of fastokens stays."""
        is_refused = self._settled.is_set() and self._fast is None
        fast = "off" if is_refused else self.report.requested
        kept = {"fast": fast, "report": self.report, "trial": self._trial}
        return {**super().__getstate__(), **kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.report = replace(state["report"], active="huggingface")
        self._trial = state["trial"]
        # Compared again: another version of fastokens may be installed here.
        self._begin(state["fast"])

    # --- which library encodes --------------------------------------------------------------------

    def _begin(self, fast: FastMode) -> None:
        """Build fastokens, or wait until that is worth it."""
        self._fast = None
        self._settled = threading.Event()
        self._pid = os.getpid()
        self._waiting = []
        if fast == "off":
            self._settled.set()
        elif fast == "now" or find_spec("fastokens") is None:
            self._settle(is_in_background=False)
        else:
            self.report = replace(self.report, reason=_LATER)
            self._waiting, self._encoded = [self._settle], 0

    def _start(self) -> None:
        """Begin to build fastokens in a thread, unless that has begun."""
        try:
            settle = self._waiting.pop()
        except IndexError:
            return
        self._pid = os.getpid()
        self.report = replace(self.report, reason=_PENDING)
        # Not a daemon thread: killing one inside a library's code aborts the process.
        thread = threading.Thread(target=settle, name="streamdec-fast")
        try:
            thread.start()
        except RuntimeError as error:
            self._fall_back(TokenizerLoadError(f"cannot start a thread: {error}"))

    def wait(self, timeout: float | None = None) -> TokenizerReport:
        """Wait until it is decided which library encodes, and return the report.

        If the build of fastokens has not begun, it begins. ``timeout`` is in seconds; None waits as
        long as necessary. Raises TimeoutError after ``timeout``. Then huggingface still encodes,
        and :meth:`wait` can be called again.
        """
        if self._settled.is_set():
            return self.report
        self._start()
        if self._pid != os.getpid():  # the thread exists in the parent only
            self.report = replace(
                self.report, reason="the process was forked before fastokens was ready"
            )
            self._settled.set()
        elif not self._settled.wait(timeout):
            raise TimeoutError(f"{self.name!r}: {self.report.reason}, for {timeout:g} seconds now")
        return self.report

    def _settle(self, *, is_in_background: bool = True) -> None:
        """Build and compare fastokens, and use it if it gives the same ids."""
        from streamdec.fastpath._probes import build_and_compare

        slow_ids = super()._batch_ids
        try:
            if self._trial is not None and self.report.requested == "background":
                self._trial()
            encoder = build_and_compare(self._tokenizer, slow_ids, is_in_background)
        except Stopped:
            self.report = replace(self.report, reason="the program is ending")
        except (MissingExtraError, TokenizerLoadError) as error:
            self._fall_back(error)
        else:
            self._fast = encoder
            self.report = replace(self.report, active="fastokens", reason=_SAME)
        finally:
            self._settled.set()

    def _fall_back(self, error: Exception) -> None:
        """Report and log why huggingface encodes."""
        self.report = replace(self.report, reason=str(error))
        reason: FallbackReason = "missing" if isinstance(error, MissingExtraError) else "refused"
        tell(hooks.installed, "fell_back", FellBack(self.tokenizer_type, reason))
        _log.info("%r: %s", self.name, self.report)
        self._settled.set()

    # --- encoding ---------------------------------------------------------------------------------

    def _batch_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        fast = self._fast
        if fast is not None and not any(GUARDED in text for text in texts):
            try:
                return fast.ids(texts, special, add_special_tokens=add_special_tokens)
            except TokenizerLibraryError as error:
                # A failure of fastokens must not fail the request.
                message = "%r: fastokens failed, so %s encodes this call: %s"
                _log.warning(message, self.name, self.tokenizer_type, error)
                tell(hooks.installed, "fell_back", FellBack(self.tokenizer_type, "fails"))
        slow = super()._batch_ids(texts, special, add_special_tokens=add_special_tokens)
        if self._waiting:
            self._encoded += sum(map(len, texts))
            if self._encoded >= WORTH:
                self._start()
        return slow
