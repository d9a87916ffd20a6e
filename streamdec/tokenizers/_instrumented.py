"""Instrument the calls that encode and decode whole texts.

In: a tokenizer's ``decode``, or a call that encodes. Out: the same, reported to the hooks. Without
hooks, and within ``streamdec.hooks.suppressed``, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from operator import length_hint
from time import perf_counter
from typing import Any, Literal

from streamdec import hooks
from streamdec.hooks import Call, suppressed, tell, type_of

Ids = Sequence[int] | bytes
"""Ids of a text, or four bytes for each."""
Decode = Callable[..., str]


def instrumented_decode(decode: Decode) -> Decode:
    """Wrap the method ``decode`` so that hooks receive each call."""

    @wraps(decode)
    def instrumented(
        self: Any, token_ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> str:
        if not hooks.installed or suppressed.is_entered:
            return decode(self, token_ids, skip_special_tokens=skip_special_tokens)
        size = length_hint(token_ids)  # 0 for an iterator without a length
        text, failed, started = "", None, perf_counter()
        try:
            text = decode(self, token_ids, skip_special_tokens=skip_special_tokens)
        except Exception as error:
            failed = type(error).__name__
            raise
        finally:
            seconds = perf_counter() - started
            call = Call(type_of(self), "decode", seconds, 1, size, len(text), failed)
            tell(hooks.installed, "called", call)
        return text

    return instrumented


def instrumented_ids(
    tokenizer: Any,
    operation: Literal["encode", "encode_batch"],
    texts: Sequence[Any],
    find: Callable[[], Sequence[Ids]],
) -> Sequence[Ids]:
    """Return ``find()``, the ids of ``texts``, and report the call to the hooks."""
    found: Sequence[Ids] = ()
    failed, started = None, perf_counter()
    try:
        found = find()
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        seconds = perf_counter() - started
        report = getattr(tokenizer, "report", None)
        by = type_of(tokenizer) if report is None else report.active
        size = sum(len(ids) // 4 if isinstance(ids, bytes) else len(ids) for ids in found)
        characters = sum(len(text) for text in texts if isinstance(text, str))
        call = Call(by, operation, seconds, len(texts), size, characters, failed)
        tell(hooks.installed, "called", call)
    return found
