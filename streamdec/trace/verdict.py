"""The verdict on a trace: whether its text equals the decode of all its ids.

The oracle is ``decode()`` of the ids up to the stop. The traced decoder only says which stop it
found and where, so text that was lost before a stop is noticed too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamdec.chunks import StopMatch, same_items
from streamdec.core.decode_stream import DecodeStream
from streamdec.protocols import Decoder
from streamdec.trace.records import Trace, Verdict

_UNKNOWN_TO_DECODE = {"clean_up_tokenization_spaces": True, "unknown_ids": "replace"}
_SHOWN = 24  # characters around a difference
_EXACT = 'except runs of bad bytes; byte_fallback="exact" outputs them as decode() does'
_SPOILED = "except characters of the prompt in a run of bytes that later ids made invalid"


def verdict_on(
    trace: Trace,
    tokenizer: Decoder,
    ids: Sequence[int],
    prompt: Sequence[int] | None,
    match: StopMatch | None = None,
) -> Verdict:
    """Compare the text of ``trace`` with the decode of its ``ids``.

    ``prompt`` are the ids before the trace, None if they are unknown. ``match`` is the stop that
    ended the stream, None without one.
    """
    options = trace.header.options
    for name, value in _UNKNOWN_TO_DECODE.items():
        if options[name] == value:
            return Verdict(None, reason=f"{name}={value!r}, which decode() does not have")
    if trace.header.after_prompt and prompt is None:
        return Verdict(None, reason="the ids before the trace are not known")
    try:
        reference = _Reference(tokenizer, prompt or (), ids, options)
        return _compared(trace, reference, trace.text, match)
    except Exception as error:  # noqa: BLE001 (anybody's tokenizer; the stream itself went well)
        return Verdict(None, reason=f"decode() raised {type(error).__name__}: {error}")


def _compared(
    trace: Trace, reference: _Reference, generated: str, match: StopMatch | None
) -> Verdict:
    text = reference.before + generated
    leaves = list(_left_by(trace, match, len(reference.ids)))
    for count, is_all in leaves:
        for expected, reason in reference.texts(count):
            if _fits(text, expected, generated, match, is_all=is_all):
                return Verdict(equal=True, reason=reason)
    expected = reference.whole(leaves[0][0])
    at = same_items(text, expected)
    before = len(reference.before)
    start, end = max(at - _SHOWN // 2, min(at, before)), at + _SHOWN
    message = f"the stream has {text[start:end]!r}, decode() has {expected[start:end]!r}"
    return Verdict(False, _token_at(trace, reference, expected, at), max(at - before, 0), message)


def _left_by(trace: Trace, match: StopMatch | None, size: int) -> Iterator[tuple[int, bool]]:
    """Yield how many first ids may have produced the text, the likeliest first.

    Each comes with whether the text must be the full decode of these ids, or only its beginning. If
    an id stops the stream, the text is that of the ids before it. If a string stops the stream, it
    is in the text of all ids, or in text that a stop id flushed.
    """
    if match is None or (match.visible and not isinstance(match.stop, str)):
        yield size, True
    elif isinstance(match.stop, str):
        last = [(token.kind, token.piece) for token in trace.tokens[-1:]]
        is_all = last == [("skipped", match.stop)]  # the id of the string stops the stream
        yield size, is_all
        yield size - 1, is_all
    else:
        yield size - 1, True


def _fits(
    text: str, expected: str, generated: str, match: StopMatch | None, *, is_all: bool
) -> bool:
    """Return whether ``text`` is ``expected``, or begins it without ``is_all``.

    With ``match``, ``generated`` must end where the match ends, or begins if it is hidden.
    """
    if match is not None and len(generated) != (match.end if match.visible else match.start):
        return False
    return text == expected if is_all else expected.startswith(text)


class _Reference:
    """The texts of the tokenizer's own decode."""

    def __init__(
        self,
        tokenizer: Decoder,
        prompt: Sequence[int],
        ids: Sequence[int],
        options: Mapping[str, Any],
    ) -> None:
        self.ids = ids
        self._tokenizer = tokenizer
        self._prompt = prompt
        # Unknown ids of a prompt are never refused, and those of the stream are not in its ids.
        self._options = {**options, "unknown_ids": "skip"}
        stream = DecodeStream(tokenizer, **self._options)
        text = "".join(stream.step_batch(prompt))
        after = DecodeStream(tokenizer, prompt, **self._options)
        run = stream.held.removesuffix(after.held)  # the complete characters of an open run
        rest = run.decode() if after.held else stream.flush().removesuffix(after.pending_text)
        self.before = text + rest
        """The text that the prompt decided, which is not output."""
        self._spoiled = text + "\ufffd" * len(run) if run else self.before
        """How the full decode begins if later bytes make that run invalid."""

    def whole(self, count: int) -> str:
        """Return the decode of the prompt and the first ``count`` ids."""
        ids = [*self._prompt, *self.ids[:count]]
        skip = self._options["skip_special_tokens"]
        return self._tokenizer.decode(ids, skip_special_tokens=skip)

    def texts(self, count: int) -> Iterator[tuple[str, str]]:
        """Yield ``whole(count)`` and other correct texts, each with a remark."""
        whole = self.whole(count)
        yield whole, ""
        if whole.startswith(self._spoiled):  # the characters of the prompt stay whole
            yield self.before + whole[len(self._spoiled) :], _SPOILED
        if self._options["byte_fallback"] == "eager" and self._streamed(count, "exact") == whole:
            # The text must be the eager one of these ids, and the exact one must be decode()'s.
            yield self._streamed(count, "eager"), _EXACT

    def _streamed(self, count: int, byte_fallback: str) -> str:
        """Return the whole text of a stream; "" if the tokenizer lacks this policy."""
        options = {**self._options, "byte_fallback": byte_fallback}
        try:
            stream = DecodeStream(self._tokenizer, **options)
        except ValueError:
            return ""
        return "".join(stream.step_batch([*self._prompt, *self.ids[:count]])) + stream.flush()


def _token_at(trace: Trace, reference: _Reference, expected: str, at: int) -> int | None:
    """Return the token after which code point ``at`` is wrong; None for the flush.

    After it another code point is output or jailed, or the decided one is neither.
    """

    def is_decided(index: int) -> bool:
        text = reference.whole(index + 1)
        # The U+FFFD of a character that is not finished is not.
        text = text.rstrip("\ufffd") if trace.tokens[index].held else text
        return same_items(text, expected) > at

    decided = bisect_left(range(len(trace.tokens)), True, key=is_decided)
    given = len(reference.before)
    for token in trace.tokens:
        given += len(token.text)
        shown = given + len(token.jailed)
        if shown > at and (given > at or token.jailed[at - given] != expected[at : at + 1]):
            return token.index
        if token.index >= decided and shown <= at:
            return token.index
    return None
