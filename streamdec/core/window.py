"""The general route: ids in, text out, for an object that only has ``decode``.

The window is the last few ids: *context* ids whose text was output, and *pending* ids whose text
was not all output. Each step decodes both and outputs the new text. This is the algorithm of
text-generation-inference and vLLM (``prefix_offset`` and ``read_offset``), with four differences:
only the U+FFFD at the end are withheld, at most three; a context that decodes to nothing, or begins
inside a character, is widened; the window never exceeds MAX_WINDOW ids; and it is an error if a
decode no longer begins with the text that was output.

``decode`` alone does not show which tokens share a character. So this route guarantees less than
the bytes route. The joined text equals the full decode only if the text of the decoder grows by
appending, and MAX_WINDOW ids of context are enough.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

from streamdec.core.decode_options import Options
from streamdec.core.replacers import Replacers, replacers_of
from streamdec.core.table import Table
from streamdec.core.token_ids import MAX_TOKEN_ID, check_token_id
from streamdec.core.utf8 import REPLACEMENT
from streamdec.errors import RewriteError, TokenizerLibraryError
from streamdec.hooks import suppressed
from streamdec.protocols import Decoder

INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET = 5
"""How many ids of a prompt are context at first: the value of vLLM, TGI, SGLang and Dynamo."""

MAX_WINDOW = 64
"""The most ids that a step decodes at once, its own among them."""

REPEATS = 8
"""An id repeated this often shows its text, even if the decoder strips some spaces first."""
MAX_INSIDE = 4
"""A cut is inside a character at most this many ids less one: the bytes of a character."""
HALF = MAX_WINDOW // 2
"""How far a prompt is looked back into at once, and what a window is cut to."""

MAX_HELD = 3
"""The most U+FFFD withheld at the end: an unfinished character has three bytes at most, and
libraries give it one U+FFFD or one for each byte."""


class WindowState(NamedTuple):
    """The state of a windowed stream. No two are alike, so none is kept."""

    context: tuple[int, ...]
    """Ids whose text was output."""
    pending: tuple[int, ...]
    """Ids after ``context`` whose text was not all output."""
    given: str
    """The part of the text of ``context`` and ``pending`` that was output."""
    tails: tuple[str, ...]
    """What each replacer withholds."""
    age: int = 0
    """How many tokens came since all text was out."""

    @property
    def ids(self) -> tuple[int, ...]:
        """All of its ids."""
        return self.context + self.pending


class WindowTable(Table):
    """The table of a tokenizer that cannot be compiled: each step decodes.

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
        self._decode = full_decode(decoder, options.skip_special_tokens)

    # --- one token

    def step(self, state: WindowState, token_id: int) -> tuple[str, WindowState]:
        if not self.knows(token_id):
            return "", self.later(state, 1)
        text, after = self._step(state, token_id)
        text, tails = self.replacers.step(state.tails, text)
        is_out = text and not (after.pending or any(tails))
        return text, after._replace(tails=tails, age=0 if is_out else state.age + 1)

    def _step(self, state: WindowState, token_id: int) -> tuple[str, WindowState]:
        context, pending, given = state.context, (*state.pending, token_id), state.given
        text = self._decode(context + pending)
        settled = _without_held(text)
        if not settled.startswith(given) and text.endswith(REPLACEMENT):
            settled = given  # a run of bytes that may yet be good: as vLLM and TGI, wait
        new = _appended(given, settled)
        given += new
        if new and len(settled) == len(text):
            context, pending = self._context(context + pending, text, len(pending)), ()
            given = text = self._decode(context)
        return new, self._bounded(WindowState(context, pending, given, state.tails), text)

    def knows(self, token_id: int) -> bool:
        return self._piece is None or self._piece(token_id) is not None

    def later(self, state: WindowState, tokens: int) -> WindowState:
        return state._replace(age=state.age + tokens)

    def is_bounded(self, state: WindowState) -> bool:
        return False

    # --- the window

    def _context(self, ids: tuple[int, ...], text: str, size: int) -> tuple[int, ...]:
        """Return the last ``size`` ids, or more, whose text is a whole end of ``text``."""
        for start in range(max(len(ids) - size, 0), 0, -1):
            end = self._decode(ids[start:])
            if end and text.endswith(end) and not end.startswith(REPLACEMENT):
                return ids[start:]
        return ids

    def _bounded(self, state: WindowState, text: str) -> WindowState:
        """Return ``state``, shortened if one more id would exceed MAX_WINDOW."""
        ids, given = state.ids, state.given
        if len(ids) < MAX_WINDOW:
            return state
        # First go the ids without text, such as skipped and unknown ones. The last of each stays if
        # there is room: a blank of CTC separates equal tokens. Before any text it stays anyway,
        # because a token without text may still be the first.
        for keep_last in (True, False) if text else (True,):
            ids = self._without_silent(ids, text, keep_last=keep_last)
            if len(ids) <= HALF:
                break
            later = self._cut(ids, text, given, least=1 if text and keep_last else 0)
            if later is not None:
                ids, given = later
                break
        if len(ids) >= MAX_WINDOW:
            raise _rewrite(given, text)
        return WindowState(ids, (), given, state.tails)

    def _without_silent(
        self, ids: tuple[int, ...], text: str, *, keep_last: bool
    ) -> tuple[int, ...]:
        """Return ``ids`` without those that ``text``, their decode, does not need."""
        place = 0
        while place < len(ids) and len(ids) > 1:
            fewer = ids[:place] + ids[place + 1 :]
            is_kept = keep_last and ids[place] not in ids[place + 1 :]
            if not is_kept and self._is_silent(ids[place]) and self._decode(fewer) == text:
                ids = fewer
            else:
                place += 1
        return ids

    def _is_silent(self, token_id: int) -> bool:
        """Whether an id has no text, as the first or as a later one."""
        return not self._decode((token_id,)) and not self._decode((token_id,) * REPEATS)

    def _cut(
        self, ids: tuple[int, ...], text: str, given: str, *, least: int
    ) -> tuple[tuple[int, ...], str] | None:
        """Return fewer ids that have all withheld text, and their part that is out."""
        if not text.startswith(given):
            raise _rewrite(given, text)
        for start in range(len(ids) - HALF, 0, -1):
            end = self._decode(ids[start:])
            before = len(text) - len(end)
            if len(end) >= least and text.endswith(end) and before <= len(given):
                return ids[start:], given[before:]
        return None

    # --- the beginning and the end

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> WindowState:
        ids = [check_token_id(token_id, what="prompt token") for token_id in prompt_token_ids]
        context, tails = self._context_after(ids), self.replacers.start
        if tails:
            tails = self.replacers.step(tails, self._decode(ids[-HALF:]))[1]
        return WindowState(context, (), _without_held(self._decode(context)), tails)

    def _context_after(self, prompt: Sequence[int]) -> tuple[int, ...]:
        """Return the context after a prompt. Looks back until there is text."""
        size = min(len(prompt), INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
        for end in range(len(prompt), 0, -HALF):
            if self._decode(prompt[max(end - HALF, 0) : end]):
                # One of each id without text stays: a blank of CTC separates equal tokens.
                tail = tuple(dict.fromkeys(reversed(prompt[end:])))[::-1][1 - HALF :]
                # The ids before go back twice as far, because they may begin inside a character.
                start = max(end - (MAX_WINDOW - 1 - len(tail)), 0)
                for first in range(start, min(start + MAX_INSIDE, end)):
                    ids = (*prompt[first:end], *tail)
                    text = self._decode(ids)
                    if not (start and text.startswith(REPLACEMENT)):
                        break
                return self._context(ids, text, size)
        # No text, or only spaces that the first token of a text loses. A token without text may
        # still be the first: one of each is kept.
        silent = {token_id for token_id in set(prompt) if self._is_silent(token_id)}
        kept = [token_id for token_id in prompt if token_id not in silent]
        once = [token_id for token_id in dict.fromkeys(prompt) if token_id in silent]
        return (*once, *kept)[-HALF:]

    def release(self, state: WindowState) -> tuple[str, WindowState]:
        text, start = self._decode(state.ids), self.replacers.start
        new = self.replacers.flush(state.tails, _appended(state.given, text))
        if text.endswith(REPLACEMENT):  # a later id must not complete what was given as U+FFFD
            return new, WindowState((), (), "", start)
        return new, self._bounded(WindowState(state.ids, (), text, start), text)

    # --- what may be asked of a state

    def traits(self, state: WindowState) -> tuple[bool, bool, bool]:
        # ``decode`` does not show what may still come; ``age`` says since when text waits.
        return bool(state.pending) or any(state.tails), True, True

    def held(self, state: WindowState) -> bytes:
        """Return what ``flush`` would give, as UTF-8; b"" if it raises an error."""
        try:
            return self.flush(state).encode()
        except Exception:  # noqa: BLE001 (what ``decode`` raises)
            return b""

    def checked(self, state: Any) -> WindowState:
        found = WindowState(*state)
        ids, given = found.ids, found.given
        are_ids = type(ids) is tuple and all(
            type(each) is int and 0 <= each <= MAX_TOKEN_ID for each in ids
        )
        is_age = type(found.age) is int and found.age >= 0
        if not (are_ids and is_age and len(ids) <= MAX_WINDOW):
            raise ValueError("expected a window of ids, and its age")
        if not self.replacers.is_tails(found.tails):
            raise ValueError("tails must be prefixes of the replaced patterns")
        text = self._decode(ids)
        fits = text.startswith(given) and given.startswith(_without_held(text))
        is_shorter = ids and given.startswith(text)  # an id may withhold what was given before
        if not (fits or is_shorter or text.endswith(REPLACEMENT)):
            raise ValueError("the given text is not that of the window")
        return found


def _appended(given: str, text: str) -> str:
    """Return what ``text`` has beyond ``given``."""
    if text.startswith(given):
        return text[len(given) :]
    if given.startswith(text):
        return ""  # what is withheld grew
    raise _rewrite(given, text)


def _rewrite(given: str, text: str) -> RewriteError:
    return RewriteError(
        f"decode() changed text that was already output: {given[-40:]!r} became "
        f"{text[-40:]!r}; this stream cannot continue after this token"
    )


def _without_held(text: str) -> str:
    """Return ``text`` without the last U+FFFD, which may be an unfinished character."""
    return text[: max(len(text.rstrip(REPLACEMENT)), len(text) - MAX_HELD)]


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
        if not token_ids:
            return ""
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
