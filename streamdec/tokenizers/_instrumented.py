"""Report the calls that encode and decode whole texts to the hooks.

Without hooks, and within ``streamdec.hooks.suppressed``, nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from operator import length_hint
from time import perf_counter
from typing import Any, TypeVar

from streamdec import hooks
from streamdec.hooks import Call, Operation, suppressed, tell, type_of

T = TypeVar("T")
Decode = Callable[..., str]


def is_measured() -> bool:
    """Return whether calls are reported now."""
    return bool(hooks.installed) and not suppressed.is_entered


def measured(
    by: str,
    operation: Operation,
    call: Callable[[], T],
    count: Callable[[T | None], tuple[int, int, int]],
) -> T:
    """Return ``call()``, and report it as an operation of the library ``by``.

    ``count`` gives the numbers of texts, tokens and characters. Its argument is the result, or None
    if the call failed.
    """
    found, failed, started = None, None, perf_counter()
    try:
        found = call()
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        seconds = perf_counter() - started
        event = Call(by, operation, seconds, *count(found), failed)
        tell(hooks.installed, "called", event)
    return found


def instrumented_decode(decode: Decode) -> Decode:
    """Wrap the method ``decode`` so that hooks receive each call."""

    @wraps(decode)
    def instrumented(
        self: Any, token_ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> str:
        if not is_measured():
            return decode(self, token_ids, skip_special_tokens=skip_special_tokens)
        size = length_hint(token_ids)  # 0 for an iterator without a length
        return measured(
            type_of(self),
            "decode",
            lambda: decode(self, token_ids, skip_special_tokens=skip_special_tokens),
            lambda text: (1, size, len(text or "")),
        )

    return instrumented
