"""The table of a tokenizer that cannot be compiled: each step decodes a window."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

from streamdec.core.decode_options import Options
from streamdec.core.replacers import Replacers, replacers_of
from streamdec.core.table import Table
from streamdec.core.token_ids import UnknownTokenError, check_token_id
from streamdec.core.window import HALF, TokenWindow, WindowMemory
from streamdec.errors import TokenizerLibraryError
from streamdec.hooks import suppressed
from streamdec.protocols import Decoder


class WindowState(NamedTuple):
    """The state of a windowed stream. No two are alike, so none is kept."""

    memory: WindowMemory
    tails: tuple[str, ...]
    """What each replacer withholds."""
    age: int
    """How many tokens came since all text was out."""


class WindowTable(Table):
    """A table over a TokenWindow. Nothing is stored: each step decodes.

    Raises ValueError for options that this route cannot honour.
    """

    route = "window"
    has_spans = False

    def __init__(self, decoder: Decoder, options: Options) -> None:
        if options.byte_fallback == "exact":
            raise ValueError(
                "byte_fallback='exact' needs a tokenizer on the bytes route; this one is on the "
                "windowed route; use byte_fallback='eager'"
            )
        self._piece: Callable[[int], object] | None = getattr(decoder, "piece", None)
        unknown = options.unknown_ids
        if unknown == "replace" or (unknown == "error" and not self._piece):
            why = "" if unknown == "replace" else " for a tokenizer without piece()"
            raise ValueError(
                f"unknown_ids={unknown!r} is not possible on the windowed route{why}; use 'skip'"
            )
        self.replacers: Replacers = replacers_of((), options)
        super().__init__(options, None)
        self._window = TokenWindow(full_decode(decoder, options.skip_special_tokens))

    # --- one token

    def step(self, state: WindowState, token_id: int) -> tuple[str, WindowState]:
        if not self.knows(token_id):
            raise UnknownTokenError(token_id)
        memory, tails, age = state
        text, memory = self._window.step(memory, token_id)
        text, tails = self.replacers.step(tails, text)
        is_out = text and not (memory.pending or any(tails))
        return text, WindowState(memory, tails, 0 if is_out else age + 1)

    def step_unknown(self, state: WindowState) -> tuple[str, WindowState]:
        return "", self.later(state, 1)

    def knows(self, token_id: int) -> bool:
        return self._piece is None or self._piece(token_id) is not None

    def later(self, state: WindowState, tokens: int) -> WindowState:
        return state._replace(age=state.age + tokens)

    def is_bounded(self, state: WindowState) -> bool:
        return False

    # --- the beginning and the end

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> WindowState:
        ids = [check_token_id(token_id, what="prompt token") for token_id in prompt_token_ids]
        memory = self._window.prime(ids)
        tails = self.replacers.start
        if tails:
            given = self._window.decode(ids[-HALF:]) if ids else ""
            tails = self.replacers.resynchronise(given) or self.replacers.step(tails, given)[1]
        return WindowState(memory, tails, 0)

    def flush(self, state: WindowState) -> str:
        return self.replacers.flush(state.tails, self._window.flush(state.memory))

    def release(self, state: WindowState) -> tuple[str, WindowState]:
        text, memory = self._window.release(state.memory)
        text = self.replacers.flush(state.tails, text)
        return text, WindowState(memory, self.replacers.start, 0)

    # --- what may be asked of a state

    def holds(self, state: WindowState) -> bool:
        return bool(state.memory.pending) or any(state.tails)

    def is_cut(self, state: WindowState) -> bool:
        return True  # a stream may be clean in any state, because the state knows its age

    def owes(self, state: WindowState) -> bool:
        return True  # ``decode`` does not tell

    def held(self, state: WindowState) -> bytes:
        """Return what ``flush`` would give, as UTF-8; b"" if it raises an error."""
        try:
            return self.flush(state).encode()
        except Exception:  # noqa: BLE001 (what ``decode`` raises)
            return b""

    # --- JSON

    def dump(self, state: WindowState) -> dict[str, Any]:
        age = {"age": state.age} if state.age else {}
        return {**self._window.dump(state.memory), "tails": list(state.tails), **age}

    def load(self, data: Any) -> WindowState:
        fields = dict(data)
        tails, age = tuple(fields.pop("tails")), fields.pop("age", 0)
        if not self.replacers.is_tails(tails):
            raise ValueError("tails must be prefixes of the replaced patterns")
        if type(age) is not int or age < 0:
            raise ValueError(f"age must be a number of tokens, not {age!r:.40}")
        return WindowState(self._window.load(fields), tails, age)


def full_decode(decoder: Decoder, skip_special_tokens: bool) -> Callable[[Sequence[int]], str]:
    """Return ``decode`` as a window needs it: of a list of ids, without any clean-up."""
    options: dict[str, bool] = {"skip_special_tokens": skip_special_tokens}
    try:
        parameters = {**inspect.signature(decoder.decode).parameters}
    except (TypeError, ValueError):  # a built-in without a signature
        parameters = {}
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
