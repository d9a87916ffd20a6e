"""Token ids in, text out, for an object that only has ``decode``: the general route.

The window is the last few ids: a *context* whose text was given, and *pending* ids whose text is
not all out. Each step decodes both and gives what is new. This is the algorithm of
text-generation-inference and vLLM (``prefix_offset`` and ``read_offset``), with four differences:
a trailing U+FFFD withholds itself alone, at most three of them; a context that decodes to nothing,
or begins inside a character, is widened; the window never exceeds MAX_WINDOW ids; and a decode
that takes back text is an error.

A black box cannot say which tokens share a character, so what this route claims is less than the
byte route's: the joined text is the whole decode for decoders whose text grows by appending, and
for which MAX_WINDOW ids of context are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamdec.core.utf8 import REPLACEMENT
from streamdec.errors import RewriteError

__all__ = ["INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET", "MAX_WINDOW", "TokenWindow", "WindowMemory"]

INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET = 5
"""How many ids of a prompt are context at first: the value of vLLM, TGI, SGLang and Dynamo."""

MAX_WINDOW = 64
"""The most ids that a step decodes at once, its own among them."""

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
    span: int
    """How many tokens before ``read_offset`` the context begins (``prefix_offset``)."""
    wait: int
    """How many tokens came since ``read_offset``."""


class TokenWindow:
    """The windowed route over ``decode(ids) -> str``."""

    __slots__ = ("_decode",)

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode

    def prime(self, prompt_token_ids: Sequence[int]) -> WindowMemory:
        """The memory after a prompt, of which nothing is given again."""
        ids = tuple(prompt_token_ids[-MAX_WINDOW // 2 :])
        span = min(len(prompt_token_ids), INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
        context = self._clean_context(ids, span)
        given = _without_held(self._decode(context)) if context else ""
        return WindowMemory(context, (), given, span, 0)

    def step(self, memory: WindowMemory, token_id: int) -> tuple[str, WindowMemory]:
        """The new text, and the memory after ``token_id``.

        Raises RewriteError when the decode of the window no longer begins with what was given.
        """
        pending = (*memory.pending, token_id)
        text = self._decode(memory.context + pending)
        settled = _without_held(text)
        new = self._appended(memory.given, settled, text)
        given = memory.given + new
        if not new or len(settled) < len(text):
            memory = WindowMemory(memory.context, pending, given, memory.span, memory.wait + 1)
            return new, self._bounded(memory)
        context = self._clean_context(memory.context + pending, len(pending))
        given = self._decode(context)
        return new, WindowMemory(context, (), given, memory.wait + 1, 0)

    def flush(self, memory: WindowMemory) -> str:
        """What was withheld."""
        ids = memory.context + memory.pending
        text = self._decode(ids) if ids else ""
        return self._appended(memory.given, text, text)

    @staticmethod
    def _appended(given: str, settled: str, text: str) -> str:
        if settled.startswith(given):
            return settled[len(given) :]
        if given.startswith(settled) and text.startswith(given):
            return ""  # only what is withheld became longer
        raise RewriteError(
            f"the tokenizer's decode took back text that was already given: {given[-40:]!r} became "
            f"{text[-40:]!r}; this tokenizer cannot be streamed beyond this token"
        )

    def _clean_context(self, ids: tuple[int, ...], size: int) -> tuple[int, ...]:
        """The last ``size`` ids, or more: until they have text that begins with a character."""
        for start in range(max(len(ids) - size, 0), -1, -1):
            text = self._decode(ids[start:]) if start < len(ids) else ""
            if text and not text.startswith(REPLACEMENT):
                return ids[start:]
        return ids[-size:] if size else ()

    def _bounded(self, memory: WindowMemory) -> WindowMemory:
        """The memory with a shorter window once it would exceed MAX_WINDOW with the next id."""
        ids = memory.context + memory.pending
        if len(ids) < MAX_WINDOW:
            return memory
        kept = self._clean_context(ids, MAX_WINDOW // 2)[-MAX_WINDOW * 3 // 4 :]
        given = _without_held(self._decode(kept))
        return WindowMemory(kept, (), given, memory.span, memory.wait)

    # --- JSON

    def dump(self, memory: WindowMemory) -> dict[str, Any]:
        """``memory`` as JSON."""
        return dict(memory._asdict(), context=list(memory.context), pending=list(memory.pending))

    def load(self, data: Any) -> WindowMemory:
        """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none."""
        context, pending = tuple(data["context"]), tuple(data["pending"])
        given, span, wait = data["given"], data["span"], data["wait"]
        ids = context + pending
        if not (
            len(ids) <= MAX_WINDOW
            and all(type(n) is int and 0 <= n < 2**32 for n in (*ids, span))
            and type(wait) is int
            and wait >= 0
            and isinstance(given, str)
        ):
            raise ValueError("expected a window of ids, the text given and two counts")
        memory = WindowMemory(context, pending, given, span, wait)
        if ids and not self._decode(ids).startswith(given):
            raise ValueError("the given text is not the text of the window")
        return memory


def _without_held(text: str) -> str:
    """``text`` less the U+FFFD at its end that may be an unfinished character."""
    bare = text.rstrip(REPLACEMENT)
    return text[: max(len(bare), len(text) - MAX_HELD)]
