"""The table of a tokenizer that cannot be compiled: each step decodes a window."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, SupportsIndex

from streamdec.chunks import NOTHING, chunk_of
from streamdec.core.counting import tally_of
from streamdec.core.table import (
    MOVES,
    SLOW,
    Options,
    Route,
    Row,
    Transition,
    letters_of,
    replacers_of,
)
from streamdec.core.token_ids import check_token_id
from streamdec.core.window import HALF, TokenWindow, WindowMemory
from streamdec.errors import RewriteError, StreamdecWarning, TokenizerLibraryError
from streamdec.hooks import suppressed
from streamdec.protocols import Decoder

__all__ = ["WindowTable"]

WindowState = tuple[WindowMemory, tuple[str, ...]]


class WindowTable:
    """A :class:`~streamdec.core.table.Table` over a TokenWindow. Its rows are never filled.

    Args:
        decoder: what decodes.
        options: the options of decoding.

    Raises ValueError for options that this route cannot honour.
    """

    route: Route = "window"
    idle: Any = None
    """No two states are alike, so there is none to which streams return."""
    has_spans = False
    rewrites = True

    __slots__ = ("_piece", "_replacers", "_window", "idle_row", "options")

    def __init__(self, decoder: Decoder, options: Options) -> None:
        if options.byte_fallback == "exact":
            raise ValueError(
                "byte_fallback='exact' needs a tokenizer on the bytes route; this one is on the "
                "windowed route; use byte_fallback='eager'"
            )
        self._piece: Callable[[int], object] | None = getattr(decoder, "piece", None)
        if options.unknown_ids == "replace" or (options.unknown_ids == "error" and not self._piece):
            raise ValueError(
                f"unknown_ids={options.unknown_ids!r} needs a tokenizer that knows each "
                "id; on the windowed route use unknown_ids='skip'"
            )
        _hint(decoder)
        self.options: Options = options
        self.idle_row: list[Transition] = []
        self._replacers = replacers_of((), options)
        self._window = TokenWindow(_full_decode(decoder, options.skip_special_tokens))

    # --- looking up, and computing

    def state(self, row: Any) -> WindowState:
        """Return the state that ``row`` belongs to."""
        state: WindowState = row.state
        return state

    def row(self, state: WindowState) -> Row:
        """Return the row of ``state``: a new one, which stays empty."""
        return Row(state, holds=self.holds(state))

    def transition(self, row: Any, token_id: int) -> Transition:
        """Return what ``token_id`` does. Raises KeyError for an unknown id, if that is known."""
        if not self.knows(token_id):
            raise KeyError(token_id)
        memory, tails = self.state(row)
        text, memory = self._window.step(memory, token_id)
        text, tails = self._replacers.step(tails, text)
        chunk = chunk_of(text) if text else NOTHING
        return chunk, letters_of(text) | SLOW | MOVES, tally_of(text), self.row((memory, tails))

    def unknown(self, row: Any) -> Transition:
        """Return the transition of an unknown id: nothing."""
        return NOTHING, SLOW | MOVES, tally_of(""), self.row(self.state(row))

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``; True if it cannot tell."""
        return self._piece is None or self._piece(token_id) is not None

    def name_ids(self, token_ids: object) -> bool:
        """Every token is looked at, so no id need be marked."""
        return True

    # --- the beginning and the end

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> WindowState:
        """Return the state after a prompt."""
        ids = [check_token_id(token_id, what="prompt token") for token_id in prompt_token_ids]
        memory = self._window.prime(ids)
        tails = self._replacers.start
        if tails:
            given = self._window.decode(ids[-HALF:]) if ids else ""
            tails = self._replacers.resynchronise(given) or self._replacers.step(tails, given)[1]
        return memory, tails

    def flush(self, state: WindowState) -> str:
        """Return the text that was withheld. Raises RewriteError."""
        memory, tails = state
        return self._replacers.flush(tails, self._window.flush(memory))

    def release(self, state: WindowState) -> tuple[str, WindowState]:
        """Return the text of what is held, and the state in which the stream goes on."""
        memory, tails = state
        text, memory = self._window.release(memory)
        return self._replacers.flush(tails, text), (memory, self._replacers.start)

    # --- what is withheld

    def holds(self, state: WindowState) -> bool:
        """Whether text may be withheld in ``state``."""
        memory, tails = state
        return bool(memory.pending) or any(tails)

    def held(self, state: WindowState) -> bytes:
        """Return what ``flush`` would give, as UTF-8; b"" if it can give nothing."""
        try:
            return self.flush(state).encode()
        except RewriteError:
            return b""

    # --- JSON

    def dump(self, state: WindowState) -> dict[str, Any]:
        """Return ``state`` as JSON."""
        memory, tails = state
        return {**self._window.dump(memory), "tails": list(tails)}

    def load(self, data: Any) -> WindowState:
        """Return the state that ``dump`` gave ``data`` for.

        Raises ValueError, TypeError or KeyError if no state has that form.
        """
        fields = dict(data)
        tails = tuple(fields.pop("tails"))
        if not self._replacers.is_tails(tails):
            raise ValueError("tails must be prefixes of the replaced patterns")
        return self._window.load(fields), tails


def _full_decode(decoder: Decoder, skip_special_tokens: bool) -> Callable[[Sequence[int]], str]:
    """Return ``decode`` as a window needs it: of a list of ids, without any clean-up."""
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
            with suppressed:  # hooks get one event for a stream, not for each window
                text = decoder.decode(list(token_ids), **options)
        except BaseException as error:
            # A panic of a Rust library (pyo3) is not an Exception.
            if type(error).__name__ == "PanicException":
                raise TokenizerLibraryError(f"{decoder!r:.80} panicked: {error}") from error
            raise
        if not isinstance(text, str):
            raise TypeError(f"{decoder!r:.80}: decode() returned {type(text).__name__}, not str")
        return text

    return decode


def _hint(decoder: Decoder) -> None:
    """Warn about a library's own tokenizer, which a backend serves better."""
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
