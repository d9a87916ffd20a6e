"""The markers between which the stop strings of a request are ignored.

They come from a field of the request or, if it has none, from an environment variable. Both may
say ``auto``: then they are those of the reasoning parser that SGLang was started with
(``--reasoning-parser``).
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import Any

from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_serving

from streamdec import StopConditions
from streamdec_sglang import FIELD, MARKERS, has_rust_server, markers_setting
from streamdec_sglang.logs import say_once

__all__ = ["Pairs", "markers_of", "note_regex"]

Pairs = tuple[tuple[str | int, str | int], ...]

AUTO = "auto"
MAX_PAIRS = 32
"""The most pairs of markers of a request. Making a decoder with 10,000 takes a second."""
NOT_IGNORED = "stops count in the reasoning, too"


def markers_of(params: Any, tokenizer: Any) -> Pairs:
    """Return the pairs of markers between which the stops of a request are ignored.

    Args:
        params: the ``SamplingParams`` of the request.
        tokenizer: the tokenizer of the scheduler.

    Raises:
        ValueError: the markers of the request are not pairs.
    """
    given = _given(params)
    if not given:
        return ()
    if has_rust_server():
        say_once(f"{NOT_IGNORED}: SGLang's Rust server cuts the text at the first of them")
        return ()
    if isinstance(given, str) and given.strip().lower() == AUTO:
        return _parser_markers(get_serving().reasoning_parser, tokenizer)
    return _pairs(given)


def note_regex(params: Any) -> None:
    """Log that stops count in the reasoning of a request with ``stop_regex``, if that matters."""
    if _given(params):
        say_once(f"{NOT_IGNORED}, in requests with stop_regex")


def _given(params: Any) -> Any:
    """Return what the request says, or else the environment variable."""
    custom = getattr(params, "custom_params", None)
    given = custom.get(FIELD) if isinstance(custom, dict) else None
    return _setting() if given is None else given


def _pairs(given: Any) -> Pairs:
    """Return pairs of markers. ``given`` is a list of pairs, or flat, as SGLang needs it."""
    if isinstance(given, str):
        raise ValueError(f"{FIELD}: expected a list of markers or {AUTO!r}, got {given!r:.80}")
    flat = [
        each for part in given for each in (part if isinstance(part, (list, tuple)) else [part])
    ]
    if len(flat) % 2 or len(flat) > 2 * MAX_PAIRS:
        expected = f"at most {MAX_PAIRS} pairs of an opening and a closing marker"
        raise ValueError(f"{FIELD}: expected {expected}, got {given!r:.80}")
    return tuple(zip(flat[::2], flat[1::2], strict=True))


@cache
def _setting() -> Pairs | str:
    """Return what the environment variable says: pairs of markers, or ``auto``."""
    given = markers_setting().strip()
    if not given:
        return ()
    if given.lower() == AUTO:
        return AUTO
    try:
        pairs = _pairs(json.loads(given))
        StopConditions(ignore_stops_between=pairs)
    except Exception as error:
        say_once(f'{MARKERS} must be {AUTO} or a list such as ["<think>", "</think>"]: {error}')
        return ()
    return pairs


@lru_cache(maxsize=8)
def _parser_markers(name: str | None, tokenizer: Any) -> Pairs:
    """Return the markers of the reasoning parser ``name``."""
    if not name:
        say_once(f"{NOT_IGNORED}: SGLang was started without a reasoning parser")
        return ()
    try:
        detector = ReasoningParser(name, stream_reasoning=False, tokenizer=tokenizer).detector
        start, end = detector.think_start_token, detector.think_end_token
        pairs = ((start, end),) if start and end else ()
        StopConditions(ignore_stops_between=pairs)
    except Exception as error:
        say_once(f"{NOT_IGNORED}: the parser {name} failed", exc_info=error)
        return ()
    if not pairs:
        say_once(f"{NOT_IGNORED}: the parser {name} names no markers")
    return pairs
