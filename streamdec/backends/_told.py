"""Tells hooks of the calls that are made of a tokenizer.

In: what encodes and decodes whole texts. Out: the same; where there are hooks, each call is told
of, but for those within ``streamdec.hooks.untold``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from operator import length_hint
from time import perf_counter
from typing import Any, Literal

from streamdec import hooks
from streamdec.hooks import Call, tell, type_of, untold

__all__ = ["told_decode", "told_ids"]

Ids = Sequence[int] | bytes
"""Ids of a text, or four bytes for each."""
Decode = Callable[..., str]


def told_decode(decode: Decode) -> Decode:
    """The method ``decode``, of which hooks are told."""

    @wraps(decode)
    def told(self: Any, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if not hooks.installed or untold.is_entered:
            return decode(self, token_ids, skip_special_tokens=skip_special_tokens)
        size = length_hint(token_ids)  # 0 if they come one by one, or are none
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

    return told


def told_ids(
    tokenizer: Any,
    operation: Literal["encode", "encode_batch"],
    texts: Sequence[Any],
    find: Callable[[], Sequence[Ids]],
) -> Sequence[Ids]:
    """What ``find`` gives, the ids of ``texts``; hooks are told of it."""
    if not hooks.installed or untold.is_entered:
        return find()
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
