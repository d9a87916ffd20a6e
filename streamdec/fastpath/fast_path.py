"""Encode with fastokens where it gives the same ids as another library.

In: a ``tokenizer.json``, in a file or made in memory. Out: an encoder that is several times faster,
if it passed a trial: static rules, and the ids of a few thousand strings. By default it is built
and compared in a thread when enough text was encoded to make that worth it; with ``fast="now"``,
before the tokenizer is returned. If it cannot be used, ``report`` says why.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from typing import Any, ClassVar, Literal, Self, get_args

from tokenizers import Tokenizer

from streamdec import hooks
from streamdec.encoding import Encoding, Special, encoding_of
from streamdec.errors import (
    MissingExtraError,
    TokenizerLibraryError,
    TokenizerLoadError,
    warn,
)
from streamdec.fastpath._fastokens import FastEncoder, ids_of
from streamdec.fastpath._fastokens_check import FastokensCheck, Stopped
from streamdec.fastpath._probes import GUARDED
from streamdec.hooks import FallbackReason, FellBack, tell
from streamdec.locks import cached_property
from streamdec.mistakes import check_flag
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import refuse_special
from streamdec.tokenizers.tokenizer_report import FastMode, RequestedBy, TokenizerReport
from streamdec.tokenizers.trial import Trial

VARIABLE = "STREAMDEC_FAST"
MODES: tuple[FastMode, ...] = get_args(FastMode)
"""The values of ``fast``."""
_LISTED = ", ".join(MODES)
_INLINE_CHARS = 32_768
_SHORT = 2_048
"""The most code points of a text that is encoded with the GIL held, in a few microseconds."""
_DIFFERING_KEPT = 10
_PENDING = "fastokens is being built and compared in the background"
_LATER = "fastokens is built in the background after {:,} code points"
_OFF = "fastokens is switched off"
_FORKED = "the process was forked before fastokens was ready"
_log = logging.getLogger("streamdec")


@dataclass(frozen=True, slots=True)
class FastOptions:
    """Checked options of a hybrid tokenizer, with the environment applied."""

    fast: FastMode = "background"
    """``"off"``: never use fastokens. ``"now"``: build and compare it while loading.
    ``"background"``: build and compare it in a thread when it is worth it."""
    requested_by: RequestedBy = "default"
    strict: bool = False
    """Raise an error if fastokens cannot be used. Only with ``"now"``."""
    trial: Trial | None = None
    """For a file of a stranger: what builds fastokens in a child process first."""

    @classmethod
    def of(cls, fast: str | None = None, *, strict: bool = False) -> Self:
        """Check the options of :class:`~streamdec.tokenizers.HybridTokenizer`.

        Raises ValueError if an option is not valid; TypeError if ``strict`` is not a bool.
        """
        check_flag("strict", strict)
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
        message = (
            f"the environment variable {VARIABLE} must be one of {_LISTED}, got {value!r:.40}: it "
            "is ignored, and 'background' is used"
        )
        warn(message)
        return cls()


class FastPath(BaseTokenizer):
    """A tokenizer whose texts fastokens encodes once it has passed the trial."""

    name: str
    """Its path or name, for messages."""
    report: TokenizerReport
    """What was requested, what encodes, and why. It is replaced when that changes."""
    _options = FastOptions("off")
    _fast: FastEncoder | None = None
    _encode_short: Callable[[str], Any] | None = None
    """Encodes one text and returns an object with ``ids``; None if fastokens is not in use."""
    _waiting: list[FastokensCheck] = []  # noqa: RUF012 (stays empty)
    """The check that is begun when it is worth it, in a list from which one thread takes it."""
    _worth = 2**18
    """The code points that are encoded before fastokens is built. It is then repaid within ten
    texts of this length: the libraries need 0.7 µs for a code point, and the build 0.6 to 2 s."""
    _encoded = 0
    """The code points that were encoded since loading."""
    _settled = threading.Event()
    """Set once it is decided which library encodes."""
    _pid = -1
    _file = ""
    """A description of the file, put before the reason in the report; "" for ``huggingface``."""

    @abstractmethod
    def slow_ids(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        special: Literal["parse", "text"] = "parse",
    ) -> list[bytes]:
        """Return the ids that the other library gives, four bytes each, little-endian.

        For comparisons; ``add_special_tokens`` and ``special`` are as for ``encode``. Raises
        :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.
        """

    def begin_fast(self, options: FastOptions) -> None:
        """Begin the trial of a tokenizer that was loaded with ``options``."""

    def _begin(
        self,
        content: Callable[[], bytes],
        options: FastOptions,
        *,
        tokenizer: Tokenizer | None = None,
        renumbered: Sequence[str] = (),
    ) -> None:
        """Begin to build fastokens from the ``tokenizer.json`` that ``content`` returns.

        ``tokenizer`` is the library's tokenizer of it, if it exists already, and ``renumbered`` are
        added tokens whose ids differ from those in the file.
        """
        self._options = options
        self._fast = self._encode_short = None
        self._settled = threading.Event()
        self._pid = os.getpid()
        self._waiting = []
        if options.fast == "off":
            if self._file:
                self.report = replace(self.report, reason=f"{self._file}{_OFF}")
            self._settled.set()
            return
        check = FastokensCheck(
            tokenizer,
            content,
            renumbered=renumbered,
            slow_ids=self.slow_ids,
            is_stopped=self._is_stopped,
        )
        if options.fast == "now" or find_spec("fastokens") is None:
            self._settle(check)
            return
        self.report = replace(self.report, reason=self._file + _LATER.format(self._worth))
        self._waiting, self._encoded = [check], 0

    def _count(self, texts: Sequence[str]) -> None:
        """Count texts of the other library; begin the build if it is worth it."""
        if self._waiting:
            self._encoded += sum(map(len, texts))
            if self._encoded >= self._worth:
                self._start()

    def _start(self) -> None:
        """Begin to build fastokens in a thread, unless that has begun."""
        try:
            check = self._waiting.pop()
        except IndexError:
            return
        self._pid = os.getpid()
        self.report = replace(self.report, reason=self._file + _PENDING)
        # Not a daemon thread: killing one inside a library's code aborts the process.
        thread = threading.Thread(target=self._settle, args=(check,), name="streamdec-fast")
        try:
            thread.start()
        except RuntimeError as error:
            no_thread = TokenizerLoadError(f"cannot start a thread to build fastokens: {error}")
            self._fall_back(check, no_thread)

    # --- which library encodes --------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> TokenizerReport:
        """Wait until it is decided which library encodes, and return the report.

        If the build of fastokens has not begun, it begins. ``timeout`` is in seconds; None waits as
        long as necessary. Raises TimeoutError after ``timeout``. Then the other library still
        encodes, and :meth:`wait` can be called again.
        """
        if self._settled.is_set():
            return self.report
        self._start()
        if self._pid != os.getpid():  # the thread exists in the parent only
            self.report = replace(self.report, reason=self._file + _FORKED)
            self._settled.set()
        elif not self._settled.wait(timeout):
            raise TimeoutError(f"{self.name!r}: {self.report.reason}, for {timeout:g} seconds now")
        return self.report

    def _settle(self, check: FastokensCheck) -> None:
        """Build and compare fastokens, and use it if it gives the same ids."""
        trial = self._options.trial
        try:
            if trial is not None and self._options.fast == "background":
                trial.run(fast=True)
            encoder = check.build_and_compare()
        except Stopped:
            self.report = replace(self.report, reason=f"{self._file}the program is ending")
        except (MissingExtraError, TokenizerLoadError) as error:
            self._fall_back(check, error)
        else:
            self.inline_chars = _INLINE_CHARS
            self._fast, self._encode_short = encoder, encoder.encode_short
            reason = f"the same ids for {check.probes} strings"
            report = self._report_on(check, reason)
            self.report = replace(report, active="fastokens", guarded=GUARDED)
        finally:
            self._settled.set()

    def _fall_back(self, check: FastokensCheck, error: Exception) -> None:
        """Report and log why the other library encodes; with ``strict``, raise ``error``."""
        if self._options.strict:
            raise type(error)(f"{self.name!r}: {error}") from error
        self.report = self._report_on(check, str(error))
        self._tell("missing" if isinstance(error, MissingExtraError) else "refused")
        _log.info("%r: %s", self.name, self.report)
        self._settled.set()

    def _report_on(self, check: FastokensCheck, reason: str) -> TokenizerReport:
        return replace(
            self.report,
            reason=self._file + reason,
            probes=check.probes,
            differing=tuple(check.differing[:_DIFFERING_KEPT]),
            seconds={**self.report.seconds, **check.seconds},
        )

    def _tell(self, reason: FallbackReason) -> None:
        tell(hooks.installed, "fell_back", FellBack(self.tokenizer_type, reason))

    def _is_stopped(self) -> bool:
        """Whether the main thread has ended, so the program waits only for this thread.

        Always False unless ``fast`` is ``"background"``.
        """
        return self._options.fast == "background" and not threading.main_thread().is_alive()

    # --- encoding ---------------------------------------------------------------------------------

    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode the str ``text``; return an Encoding with its ``ids`` and ``offsets``.

        For the arguments and errors see :meth:`streamdec.protocols.Tokenizer.encode`.
        """
        # For a short text, the checks for a batch take longer than the encoding.
        short = self._encode_short
        if (
            short is not None
            and type(text) is str
            and len(text) <= _SHORT
            and special == "parse"
            and GUARDED not in text
            and self._cache is None
            and not hooks.installed
            and not add_special_tokens
        ):
            try:
                return encoding_of(short(text).ids, text, self)
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException:  # noqa: BLE001 (as in guarded; reported below)
                pass
        return super().encode(text, add_special_tokens=add_special_tokens, special=special)

    def _fast_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> list[bytes] | None:
        """Return the ids by fastokens; None if another library must encode ``texts``.

        Special tokens are parsed unless ``special`` is ``"text"``.
        """
        fast = self._fast
        if fast is None:
            return None
        for text in texts:
            if GUARDED in text:
                return None
        as_what: Literal["parse", "text"] = "text" if special == "text" else "parse"
        try:
            return fast.ids(texts, add_special_tokens=add_special_tokens, special=as_what)
        except TokenizerLibraryError as error:
            # A failure of fastokens must not fail the request.
            _log.warning(
                "%r: fastokens failed, so %s encodes this call: %s",
                self.name,
                self.tokenizer_type,
                error,
            )
            self._tell("fails")
            return None

    @property
    def fast_encoder(self) -> FastEncoder | None:
        """The fastokens encoder if it is in use, else None; for comparisons."""
        return self._fast


FastPath._settled.set()


class AssembledFastPath(FastPath):
    """A tokenizer with fastokens built from a ``tokenizer.json`` made in memory."""

    _library: ClassVar[str]
    """What the report calls the other library."""

    @abstractmethod
    def _as_tokenizer_json(self) -> bytes:
        """Return a ``tokenizer.json`` with the same vocabulary and the same split."""

    @abstractmethod
    def _library_ids(self, text: str, special: Special) -> Sequence[int]:
        """Return the other library's ids of ``text``; ``special`` is not ``"forbid"``."""

    @cached_property
    @abstractmethod
    def _any_special(self) -> re.Pattern[str] | None:
        """Matches the name of a special token."""

    def _check_ids(self, ids: Iterable[int]) -> None:
        """Raise EncodeError if ``ids``, of plain text, have a special token."""

    def _parts_of(self, text: str) -> Sequence[str]:
        """Return the parts of ``text`` that are encoded by themselves."""
        return (text,)

    def _ids(self, text: str, special: Special) -> Sequence[int]:
        if special == "forbid":
            refuse_special(text, self._any_special)
        ids = self._library_ids(text, special)
        if special != "parse":
            self._check_ids(ids)
        return ids

    def _all_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        if self._fast is None:
            slow = super()._all_ids(texts, special, add_special_tokens=add_special_tokens)
            self._count(texts)
            return slow
        if special == "forbid":
            for text in texts:
                refuse_special(text, self._any_special)
        parts = [self._parts_of(text) for text in texts]
        flat = [part for of_text in parts for part in of_text]
        found = self._fast_ids(flat, special, add_special_tokens=False)
        if found is None:
            return super()._all_ids(texts, special, add_special_tokens=add_special_tokens)
        for ids in found if special != "parse" else ():
            self._check_ids(ids_of(ids))
        before, after = self._added if add_special_tokens else ((), ())
        if len(flat) == len(texts) and not before and not after:
            return found
        of_part, first, last = iter(found), bytes(Encoding(before)), bytes(Encoding(after))
        return [first + b"".join(islice(of_part, len(of_text))) + last for of_text in parts]

    def slow_ids(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        special: Literal["parse", "text"] = "parse",
    ) -> list[bytes]:
        """Return the other library's ids of each of ``texts``, four bytes for each id.

        For comparisons. ``special`` is as for ``encode``; ``add_special_tokens`` has no effect.
        """
        return [bytes(Encoding(self._library_ids(text, special))) for text in texts]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: without the trial and without cached values."""
        kind, trial = type(self), ("_fast", "_encode_short", "_settled", "_pid", "_waiting")
        state = {
            name: value
            for name, value in self.__dict__.items()
            if name not in trial and not isinstance(getattr(kind, name, None), cached_property)
        }
        if "_options" in state:
            is_wanted = self._fast is not None or not self._settled.is_set()
            fast = self._options.fast if is_wanted else "off"
            state["_options"] = replace(self._options, fast=fast, strict=False)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._options.fast != "off":
            # Checked again, because another version of fastokens may be installed here.
            self.report = replace(self.report, active=self._library, guarded="", differing=())
            self._begin(self._as_tokenizer_json, self._options)
