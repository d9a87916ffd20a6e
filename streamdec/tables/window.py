"""Token ids in, text out, for an object that only has ``decode``: the general route.

The window is the last few ids: a *context* whose text was given, and *pending* ids whose text is
not all out. Each step decodes both and gives what is new. This is the algorithm of
text-generation-inference and vLLM (``prefix_offset`` and ``read_offset``), with four differences:
a trailing U+FFFD withholds itself alone, at most three of them; a context that decodes to nothing,
or begins inside a character, is widened; the window never exceeds MAX_WINDOW ids; and a decode
that takes back text is an error.

A black box cannot say which tokens share a character, so what this route claims is less than the
byte route's: the joined text is the full decode for decoders whose text grows by appending, and
for which MAX_WINDOW ids of context are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamdec.errors import RewriteError
from streamdec.tables.utf8 import REPLACEMENT

INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET = 5
"""How many ids of a prompt are context at first: the value of vLLM, TGI, SGLang and Dynamo."""

MAX_WINDOW = 64
"""The most ids that a step decodes at once, its own among them."""

HALF = MAX_WINDOW // 2
"""How far a prompt is looked back into at once, and what a window is cut to."""

MAX_HELD = 3
"""The most U+FFFD withheld at the end: an unfinished character has three bytes at most, and
libraries give it one U+FFFD or one for each byte."""


class WindowMemory(NamedTuple):
    """What a windowed stream remembers."""

    context: tuple[int, ...]
    """Ids whose text was given."""
    pending: tuple[int, ...]
    """Ids after them whose text was not all given."""
    given: str
    """The text of context and pending that was given."""


class TokenWindow:
    """The windowed route over ``decode(ids) -> str``."""

    __slots__ = ("decode",)

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self.decode: Callable[[Sequence[int]], str] = decode
        """The full decode of some ids."""

    def prime(self, prompt_token_ids: Sequence[int]) -> WindowMemory:
        """The memory after a prompt, of which nothing is given again.

        Looks back until there is text.
        """
        size = min(len(prompt_token_ids), INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
        for end in range(len(prompt_token_ids), 0, -HALF):
            if self.decode(prompt_token_ids[max(end - HALF, 0) : end]):
                # Twice as far, for these may begin inside a character.
                ids = tuple(prompt_token_ids[max(end - MAX_WINDOW + 1, 0) : end])
                context = self._context(ids, self.decode(ids), size)
                return WindowMemory(context, (), _without_held(self.decode(context)))
        # No text at all, but a token without text may still be the first: one of each is kept.
        silent = {token_id for token_id in set(prompt_token_ids) if self._is_silent(token_id)}
        kept = [token_id for token_id in prompt_token_ids if token_id not in silent]
        once = [token_id for token_id in dict.fromkeys(prompt_token_ids) if token_id in silent]
        return WindowMemory(tuple([*once, *kept][-HALF:]), (), "")

    def step(self, memory: WindowMemory, token_id: int) -> tuple[str, WindowMemory]:
        """The new text, and the memory after ``token_id``.

        Raises RewriteError when the decode of the window no longer begins with what was given.
        """
        context, pending = memory.context, (*memory.pending, token_id)
        text = self.decode(context + pending)
        settled = _without_held(text)
        if not settled.startswith(memory.given) and text.endswith(REPLACEMENT):
            settled = memory.given  # a run of bytes that may yet be good: as vLLM and TGI, wait
        new = _appended(memory.given, settled)
        given = memory.given + new
        if new and len(settled) == len(text):
            context = self._context(context + pending, text, len(pending))
            text = self.decode(context)
            memory = WindowMemory(context, (), text)
            return new, self._bounded(memory, text)
        memory = WindowMemory(context, pending, given)
        return new, self._bounded(memory, text)

    def flush(self, memory: WindowMemory) -> str:
        """What was withheld. Raises RewriteError if it contradicts what was given."""
        ids = memory.context + memory.pending
        return _appended(memory.given, self.decode(ids) if ids else "")

    def release(self, memory: WindowMemory) -> tuple[str, WindowMemory]:
        """What ``flush`` gives, and a memory from which the stream continues."""
        ids = memory.context + memory.pending
        text = self.decode(ids) if ids else ""
        new = _appended(memory.given, text)
        if text.endswith(REPLACEMENT):  # a later id must not complete what was given as U+FFFD
            return new, WindowMemory((), (), "")
        return new, self._bounded(WindowMemory(ids, (), text), text)

    def _context(self, ids: tuple[int, ...], text: str, size: int) -> tuple[int, ...]:
        """The last ``size`` ids, or more, until their text is a whole end of ``text``."""
        for start in range(max(len(ids) - size, 0), 0, -1):
            end = self.decode(ids[start:]) if start < len(ids) else ""
            if end and text.endswith(end) and not end.startswith(REPLACEMENT):
                return ids[start:]
        return ids

    def _bounded(self, memory: WindowMemory, text: str) -> WindowMemory:
        """The memory with a shorter window, if the next id would make it exceed MAX_WINDOW."""
        ids = memory.context + memory.pending
        if len(ids) < MAX_WINDOW:
            return memory
        # First go the ids that say nothing: skipped and unknown ones. Before any text one of each
        # stays, because a token without text may still be the first.
        place = 0
        while place < len(ids) and len(ids) > 1:
            fewer = ids[:place] + ids[place + 1 :]
            is_needed = not text and ids[place] not in fewer
            if not is_needed and self._is_silent(ids[place]) and self.decode(fewer) == text:
                ids = fewer
            else:
                place += 1
        if len(ids) > HALF:
            ids, given = self._cut(ids, text, memory.given)
            memory = memory._replace(given=given)
        return memory._replace(context=ids, pending=())

    def _is_silent(self, token_id: int) -> bool:
        """Whether an id has no text, as the first or as a later one."""
        return not self.decode((token_id,)) and not self.decode((token_id, token_id))

    def _cut(self, ids: tuple[int, ...], text: str, given: str) -> tuple[tuple[int, ...], str]:
        """Fewer ids, whose text ends ``text`` and has all that is withheld; what of it is given."""
        if not text.startswith(given):
            raise _rewrite(given, text)
        for start in range(len(ids) - HALF, 0, -1):
            end = self.decode(ids[start:])
            before = len(text) - len(end)
            if text.endswith(end) and before <= len(given):
                return ids[start:], given[before:]
        raise _rewrite(given, text)

    # --- JSON

    def dump(self, memory: WindowMemory) -> dict[str, Any]:
        """``memory`` as JSON."""
        return dict(memory._asdict(), context=list(memory.context), pending=list(memory.pending))

    def load(self, data: Any) -> WindowMemory:
        """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none."""
        if len(data) != 3:
            raise ValueError(f"expected context, pending and given, got {sorted(map(str, data))}")
        context, pending = tuple(data["context"]), tuple(data["pending"])
        given = data["given"]
        ids = context + pending
        if not (
            len(ids) <= MAX_WINDOW
            and all(type(n) is int and 0 <= n < 2**32 for n in ids)
            and isinstance(given, str)
        ):
            raise ValueError("expected a window of ids and the text given")
        text = self.decode(ids) if ids else ""
        fits = text.startswith(given) and given.startswith(_without_held(text))
        is_shorter = ids and given.startswith(text)  # an id may withhold what was given before
        if not (fits or is_shorter or text.endswith(REPLACEMENT)):
            raise ValueError("the given text is not that of the window")
        return WindowMemory(context, pending, given)


def _appended(given: str, text: str) -> str:
    """What ``text`` has beyond ``given``."""
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
    """``text`` less the U+FFFD at its end that may be an unfinished character."""
    bare = text.rstrip(REPLACEMENT)
    return text[: max(len(bare), len(text) - MAX_HELD)]
