"""Detokenizers to check: streamdec's, the library's, an honest slow one, and one for each flaw.

The flawed ones are the slow one with one method wrong; the docstring says what.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream as LibraryDecodeStream

from streamdec import DecodeStream, HuggingFaceTokenizer, StopSequenceDecoder
from streamdec.testing import Request

known = lru_cache(maxsize=4)(HuggingFaceTokenizer)
"""One for each tokenizer, as an engine has."""


class Stopping:
    stop_reason: object = None

    def __init__(self, tokenizer: Tokenizer, request: Request) -> None:
        self._decoder = StopSequenceDecoder(tokenizer, **vars(request))

    def step(self, token_ids: list[int]) -> str:
        chunk = self._decoder.feed(token_ids)
        self.stop_reason = chunk.stop_reason
        return chunk.text

    def flush(self) -> str:
        chunk = self._decoder.flush()
        self.stop_reason = chunk.stop_reason
        return chunk.text


class Plain(Stopping):
    """Without stops."""

    def __init__(self, tokenizer: Tokenizer, request: Request) -> None:
        if request.stop:
            raise NotImplementedError("stop strings")
        super().__init__(tokenizer, request)


class Library:
    """The library's own DecodeStream, which has neither stops nor an end."""

    def __init__(self, tokenizer: Tokenizer, request: Request) -> None:
        if request.stop:
            raise NotImplementedError("stop strings")
        prompt, skip = list(request.prompt_token_ids), request.skip_special_tokens
        self._tokenizer = tokenizer
        self._stream = LibraryDecodeStream(prompt, skip_special_tokens=skip)

    def step(self, token_ids: list[int]) -> str:
        texts = [self._stream.step(self._tokenizer, token_id) for token_id in token_ids]
        return "".join(text or "" for text in texts)

    def flush(self) -> str:
        return ""


class LibraryWithoutFlush(Library):
    """The same, its adapter saying that there is no end."""

    def flush(self) -> str:
        raise NotImplementedError("flush")


class Late:
    """Right, and as late as can be: all text comes with the stop or at the end."""

    stop_reason: object = None

    def __init__(self, tokenizer: Tokenizer, request: Request) -> None:
        self.tokenizer, self.request = tokenizer, request
        self.stream = self.open()
        self.text = ""
        self.count = 0

    def open(self) -> DecodeStream:
        return self.opened(self.request.prompt_token_ids, self.request.skip_special_tokens)

    def opened(self, prompt: Sequence[int], skip: bool) -> DecodeStream:
        return DecodeStream(known(self.tokenizer), prompt, skip_special_tokens=skip)

    def step(self, token_ids: list[int]) -> str:
        for token_id in token_ids:
            self.count += 1
            if self.take(self.decode(token_id)):
                return self.text
        return ""

    def flush(self) -> str:
        self.take(self.stream.flush())
        return self.text

    def decode(self, token_id: int) -> str:
        return self.stream.step(token_id)

    def take(self, text: str) -> bool:
        """Whether the new text completes a stop, at which it is cut."""
        before = len(self.text)
        self.text += text
        if self.count <= self.request.min_tokens:
            return False
        found = [(end, stop) for stop in self.request.stop if (end := self.end(stop, before))]
        if not found:
            return False
        end, self.stop_reason = self.choose(found)
        hidden = not self.request.include_stop_str_in_output
        self.text = self.text[: end - len(str(self.stop_reason)) if hidden else end]
        return True

    def end(self, stop: str, before: int) -> int:
        """Where ``stop`` is complete within what is new; 0 if nowhere."""
        start = self.text.find(stop, max(before - len(stop) + 1, 0))
        return start + len(stop) if start >= 0 else 0

    def choose(self, found: Sequence[tuple[int, str]]) -> tuple[int, str]:
        return min(found, key=lambda one: (one[0], -len(one[1])))


def flawed(**methods: Any) -> Any:
    """``Late`` with other methods."""
    return type("Flawed", (Late,), methods)


def fails(*_: object) -> Any:
    raise RuntimeError("no reason")


def is_missing(*_: object) -> Any:
    raise NotImplementedError("step")


PromptForgotten = flawed(open=lambda self: self.opened((), self.request.skip_special_tokens))
"""Begins as if there were no prompt."""
TailLost = flawed(flush=lambda self: self.text)
"""Drops the bytes that are unfinished at the end."""
SpecialsShown = flawed(open=lambda self: self.opened(self.request.prompt_token_ids, skip=False))
"""Never skips a special token."""
UnknownShown = flawed(
    decode=lambda self, token_id: (
        "!" if self.tokenizer.id_to_token(token_id) is None else Late.decode(self, token_id)
    )
)
"""An exclamation mark for an id without a token."""
ShortestOfTie = flawed(choose=lambda _, found: min(found, key=lambda one: (one[0], len(one[1]))))
"""Of stops that are complete at once takes the shortest."""
Raising = flawed(
    decode=lambda self, token_id: Late.decode(self, token_id) if token_id < 256 else fails()
)
"""Raises on an id that is not a byte."""
MarkLost = flawed(flush=lambda self: Late.flush(self).replace("\ufeff", ""))
"""Drops byte order marks."""
Forgetting = flawed(
    decode=lambda self, token_id: Late.decode(self, token_id) if self.count <= 200 else ""
)
"""Has no text after 200 tokens."""
ShortStops = flawed(
    end=lambda self, stop, before: Late.end(self, stop, before) if len(stop) <= 16 else 0
)
"""Ignores stops that are longer than 16."""
StepMissing = flawed(step=is_missing)
"""Is not written yet."""
NoneForNothing = flawed(step=lambda self, token_ids: Late.step(self, token_ids) or None)
"""Returns None where there is no text, as the library's stream does."""
BytesAtTheEnd = flawed(flush=lambda _: b"")
"""Returns bytes when it is flushed."""
StopReasonRaises = flawed(stop_reason=property(fails, fails))
"""Has no stop, and cannot say so."""
Flooding = flawed(step=lambda *_: "x" * 100_000)
"""A hundred thousand letters for each call."""


class PromptEcho(Late):
    """Says the prompt again."""

    def flush(self) -> str:
        prompt = self.request.prompt_token_ids
        return (self.tokenizer.decode(prompt) if prompt else "") + super().flush()


class StateShared(Late):
    """Each stream continues the newest one."""

    newest: DecodeStream

    def open(self) -> DecodeStream:
        StateShared.newest = super().open()
        return self.newest

    def decode(self, token_id: int) -> str:
        return self.newest.step(token_id)


class TokenByToken(Late):
    """Decodes each token alone: U+FFFD for each part of a character."""

    def step(self, token_ids: list[int]) -> str:
        skip = self.request.skip_special_tokens
        texts = [self.tokenizer.decode([i], skip_special_tokens=skip) for i in token_ids]
        return "".join(texts)

    def flush(self) -> str:
        return ""


class Grouped(Late):
    """Gives the text of a call at once if it has one token, later if it has several."""

    given = 0

    def step(self, token_ids: list[int]) -> str:
        super().step(token_ids)
        return self.rest() if len(token_ids) == 1 else ""

    def flush(self) -> str:
        super().flush()
        return self.rest()

    def rest(self) -> str:
        start, self.given = self.given, len(self.text)
        return self.text[start:]


class StopLeaks(Grouped):
    """Withholds nothing for a stop."""

    def step(self, token_ids: list[int]) -> str:
        Late.step(self, token_ids)
        return self.rest()


class StopBuffer(StopLeaks):
    """Withholds as many characters as the longest stop has, as vLLM does."""

    def rest(self) -> str:
        hidden = not self.request.include_stop_str_in_output and self.stop_reason is None
        size = max(map(len, self.request.stop), default=1) - 1 if hidden else 0
        start, self.given = self.given, max(len(self.text) - size, self.given)
        return self.text[start : self.given]

    def flush(self) -> str:
        Late.flush(self)
        return self.text[self.given :]


class StopPrefixSwallowed(Late):
    """At the end keeps what might have become a stop."""

    def flush(self) -> str:
        super().flush()
        ends = [
            self.text[: -len(begun)]
            for stop in self.request.stop
            for begun in (stop[:size] for size in range(1, len(stop)))
            if self.stop_reason is None and self.text.endswith(begun)
        ]
        return min([self.text, *ends], key=len)


class BeforeStopSwallowed(Late):
    """Loses what the token that completes the stop has before it."""

    def take(self, text: str) -> bool:
        before = self.text
        stopped = super().take(text)
        if stopped:
            self.text = before[: len(self.text)]
        return stopped


class StopFromPrompt(Late):
    """Takes a stop that begins in the prompt."""

    def end(self, stop: str, before: int) -> int:
        prompt = self.request.prompt_token_ids
        decoded = self.tokenizer.decode(prompt) if prompt else ""
        whole = decoded + self.text
        start = whole.find(stop, max(len(decoded) + before - len(stop) + 1, 0))
        return max(start + len(stop) - len(decoded), 0) if start >= 0 else 0


class ListOrder(Late):
    """Of several stops takes the first of the list, and looks at the end of the call only."""

    def step(self, token_ids: list[int]) -> str:
        self.count += len(token_ids)
        stopped = self.take("".join(map(self.decode, token_ids)))
        return self.text if stopped else ""

    def choose(self, found: Sequence[tuple[int, str]]) -> tuple[int, str]:
        return found[0]


class VisibleTail(Late):
    """Shows what follows a visible stop in its token."""

    def take(self, text: str) -> bool:
        whole = self.text + text
        stopped = super().take(text)
        if stopped and self.request.include_stop_str_in_output:
            self.text = whole
        return stopped


class WrongReason(Late):
    """Says another stop than the one that ended the stream."""

    def step(self, token_ids: list[int]) -> str:
        text = super().step(token_ids)
        if self.stop_reason is not None:
            self.stop_reason = "another"
        return text
