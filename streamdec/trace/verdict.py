"""The verdict on a trace: is its text that of the tokenizer's own decode of all ids?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamdec.core.decode_stream import DecodeStream
from streamdec.protocols import Decoder
from streamdec.trace.records import Trace, Verdict

__all__ = ["verdict_on"]

_UNKNOWN_TO_DECODE = {"clean_up_tokenization_spaces": True, "unknown_ids": "replace"}
_SHOWN = 24
"""Characters of each text around a difference."""
_EXACT = 'but for runs of bad bytes, which byte_runs="exact" gives as decode() does'


def verdict_on(
    trace: Trace,
    tokenizer: Decoder,
    ids: Sequence[int],
    prompt: Sequence[int] | None,
    pending: str = "",
) -> Verdict:
    """``ids`` are those of the trace, and ``prompt`` those before, if they are known.

    ``pending`` is what would still come out if nothing followed. The text of a stream that a stop
    ended is compared as far as it goes.
    """
    options = trace.header.options
    for name, value in _UNKNOWN_TO_DECODE.items():
        if options[name] == value:
            return Verdict(None, reason=f"{name}={value!r}, which decode() does not know")
    before = ""
    if trace.header.after_prompt and prompt is None:
        return Verdict(None, reason="the ids that came before are not known")
    if prompt:
        before = "".join(DecodeStream(tokenizer, **options).step_batch(prompt))
    skip = options["skip_special_tokens"]
    whole = tokenizer.decode([*(prompt or ()), *ids], skip_special_tokens=skip)
    text = before + trace.text + pending
    may_be_cut = trace.header.machine == "stop" and trace.finish_reason == "stop"
    expected = whole[: len(text)] if may_be_cut else whole
    if text == expected:
        return Verdict(equal=True)
    if options["byte_runs"] == "eager":
        # What came must be what comes of these ids, and the other way with runs be decode()'s.
        eager = _decoded(tokenizer, prompt, ids, options)
        exact = _decoded(tokenizer, prompt, ids, {**options, "byte_runs": "exact"})
        if text == (eager[: len(text)] if may_be_cut else eager) and exact == whole:
            return Verdict(equal=True, reason=_EXACT)
    at = _first_difference(text, expected)
    position = at - len(before)
    start = max(at - _SHOWN // 2, len(before))
    end = at + _SHOWN
    told = f"{text[start:end]!r} came, {expected[start:end]!r} is decoded"
    return Verdict(False, _token_at(trace, position), position, told)


def _decoded(
    tokenizer: Decoder,
    prompt: Sequence[int] | None,
    ids: Sequence[int],
    options: Mapping[str, Any],
) -> str:
    """The whole text of a stream with these options; "" if this tokenizer cannot have them."""
    try:
        stream = DecodeStream(tokenizer, **options)
    except ValueError:
        return ""
    return "".join(stream.step_batch([*(prompt or ()), *ids])) + stream.flush()


def _token_at(trace: Trace, position: int) -> int | None:
    """The token that brought out the code point at ``position``; None for the flush."""
    size = 0
    for token in trace.tokens:
        size += len(token.text)
        if size > position:
            return token.index
    return None


def _first_difference(one: str, other: str) -> int:
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))
