"""The face of a Program over a TokenWindow, for tokenizers that cannot be compiled."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, SupportsIndex

from streamdec.chunks import Withheld
from streamdec.core.program import Options, Route, Waiting, cascade_of
from streamdec.core.rows import Entry, LoneRow, Row
from streamdec.core.token_ids import check_token_id
from streamdec.core.token_window import HALF, TokenWindow, WindowMemory
from streamdec.errors import RewriteError, StreamdecWarning, TokenizerLibraryError
from streamdec.hooks import untold
from streamdec.protocols import Decoder

__all__ = ["WindowProgram"]


class WindowProgram:
    """The face of a Program over a TokenWindow. Its rows are never filled: each step decodes."""

    route: Route = "window"
    rest = None
    """No two memories are alike, so there is none to which streams return."""

    __slots__ = ("_cascade", "_piece", "_window", "dense", "options")

    def __init__(self, decoder: Decoder, options: Options) -> None:
        if options.byte_fallback == "exact":
            raise ValueError(
                "byte_fallback='exact' needs a decoder that can be compiled, and this one runs on "
                "the windowed route; leave it at 'eager'"
            )
        self._piece: Callable[[int], object] | None = getattr(decoder, "piece", None)
        if options.unknown_ids == "replace" or (options.unknown_ids == "error" and not self._piece):
            raise ValueError(
                f"unknown_ids={options.unknown_ids!r} needs a tokenizer that tells what each id is "
                "made of; on the windowed route leave it at 'skip'"
            )
        _hint(decoder)
        self.options: Options = options
        self.dense: list[Any] = []
        self._cascade = cascade_of((), options)
        self._window = TokenWindow(_whole_decode(decoder, options.skip_special_tokens))

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> tuple[WindowMemory, Any]:
        """The memory after a prompt."""
        ids = [check_token_id(token_id, what="prompt token") for token_id in prompt_token_ids]
        memory = self._window.prime(ids)
        tails = self._cascade.start
        if tails:
            given = self._window.decode(ids[-HALF:]) if ids else ""
            tails = self._cascade.resynchronise(given) or self._cascade.step(tails, given)[1]
        return memory, tails

    def memory(self, row: Row) -> tuple[WindowMemory, Any]:
        """What a stream in ``row`` remembers."""
        assert isinstance(row, LoneRow)
        memory: tuple[WindowMemory, Any] = row.memory
        return memory

    def row(self, memory: Any) -> Row:
        """A row of one stream alone, which never knows a token."""
        return LoneRow(memory)

    first_row = row

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``; True if it cannot tell."""
        return self._piece is None or self._piece(token_id) is not None

    def entry(self, row: Row, token_id: int) -> Entry:
        """What ``token_id`` brings out. KeyError: unknown id, as far as the tokenizer can tell."""
        if not self.knows(token_id):
            raise KeyError(token_id)
        before, tails = self.memory(row)
        text, window = self._window.step(before, token_id)
        text, tails = self._cascade.step(tails, text)
        if any(tails):  # the offsets move when text came and none is withheld
            window = window._replace(span=before.span, wait=before.wait + 1)
        return text, self.row((window, tails))

    def transition(self, memory: Any, token_id: int) -> tuple[str, Any]:
        """The text that ``token_id`` brings out, and the memory after it. KeyError: unknown id."""
        (text, _), after = self.work_out(memory, token_id)
        return text, after

    def work_out(self, memory: Any, token_id: int) -> tuple[tuple[str, None], Any]:
        """See Rows. KeyError: unknown id, as far as the tokenizer can tell."""
        text, row = self.entry(self.row(memory), token_id)
        return (text, None), self.memory(row)

    def unknown(self, memory: Any) -> tuple[str, Any]:
        """An unknown id gives nothing."""
        window, tails = memory
        return "", (window._replace(wait=window.wait + 1), tails)

    def flush(self, memory: Any) -> tuple[str, Any]:
        """The text that was withheld, and a memory that withholds nothing."""
        window, tails = memory
        text = self._cascade.flush(tails, self._window.flush(window))
        span, wait = (window.wait, 0) if text and window.wait else (window.span, window.wait)
        return text, (WindowMemory((), (), "", span, wait), self._cascade.start)

    def is_cached(self, memory: Any) -> bool:
        """See Rows: never."""
        return False

    def settled(self, memory: Any) -> Any:
        """``memory``: nothing would be found again without its offsets either."""
        return memory

    @property
    def given(self) -> dict[int, Any]:
        """A place that nobody shares."""
        return {}

    def waiting(self, memory: Any) -> Waiting:
        """A window cannot say what waits in it."""
        return Waiting()

    def held(self, memory: Any) -> bytes:
        """What is withheld, as text that ``flush`` would give; nothing if it can give none."""
        try:
            return self.flush(memory)[0].encode()
        except RewriteError:
            return b""

    def offsets(self, memory: Any) -> tuple[int, int]:
        """How many tokens the last text took, and how many came since."""
        return memory[0].span, memory[0].wait

    def measure(self, memory: Any) -> Withheld:
        """How much is withheld in ``memory``."""
        size = len(self.held(memory))
        return Withheld(size, 0, self.offsets(memory)[1] if size else 0)

    def withheld(self, row: Row) -> Withheld:
        """How much a stream in ``row`` withholds."""
        return self.measure(self.memory(row))

    def dump(self, memory: Any) -> dict[str, Any]:
        """``memory`` as JSON."""
        window, tails = memory
        return {**self._window.dump(window), "tails": list(tails)}

    def load(self, data: Any) -> Any:
        """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none."""
        tails = tuple(data["tails"])
        if not self._cascade.is_tails(tails):
            raise ValueError("tails do not begin the patterns")
        return self._window.load(data), tails


def _whole_decode(decoder: Decoder, skip_special_tokens: bool) -> Callable[[Sequence[int]], str]:
    """``decode`` as the window needs it: of a list of ids, and never cleaned up piece by piece."""
    options: dict[str, bool] = {"skip_special_tokens": skip_special_tokens}
    try:
        parameters = inspect.signature(decoder.decode).parameters
    except (TypeError, ValueError):  # a built-in without a signature
        parameters = MappingProxyType({})
    accepts_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if parameters and not accepts_any and "skip_special_tokens" not in parameters:
        raise TypeError(f"{decoder!r:.80}: decode() must take skip_special_tokens")
    if accepts_any or "clean_up_tokenization_spaces" in parameters:  # transformers
        options["clean_up_tokenization_spaces"] = False

    def decode(token_ids: Sequence[int]) -> str:
        try:
            with untold:  # a stream is told of when it ends
                text = decoder.decode(list(token_ids), **options)
        except BaseException as error:
            # pyo3's, and no Exception: a library in Rust that panicked.
            if type(error).__name__ == "PanicException":
                raise TokenizerLibraryError(f"{decoder!r:.80} panicked: {error}") from error
            raise
        if not isinstance(text, str):
            raise TypeError(f"{decoder!r:.80}: decode() gave {type(text).__name__}, not str")
        return text

    return decode


def _hint(decoder: Decoder) -> None:
    """Says to whoever hands us a library's own object that a backend serves it better."""
    library = type(decoder).__module__.partition(".")[0]
    if library == "tokenizers" or (
        library == "transformers" and getattr(decoder, "is_fast", False) is True
    ):
        warnings.warn(
            f"a {library}.{type(decoder).__name__} streams over a window of decode(); "
            "streamdec.HuggingFaceTokenizer(tokenizer) is exact and faster",
            StreamdecWarning,
            stacklevel=5,
        )
