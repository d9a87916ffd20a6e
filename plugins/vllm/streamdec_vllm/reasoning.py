"""The markers between which the stop strings of a request are ignored.

They come from a field of the request or, if it has none, from an environment variable. Both may
say ``auto``: then they are those of the reasoning parser that vLLM was started with
(``--reasoning-parser``).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from streamdec import StopConditions
from streamdec_vllm import FIELD, MARKERS, markers_setting
from streamdec_vllm.logs import say_once

__all__ = ["Pairs", "markers_of", "note_engine"]

Pairs = tuple[tuple[str | int, str | int], ...]

AUTO = "auto"
MAX_PAIRS = 32
"""The most pairs of markers of a request. Making a decoder with 10,000 takes a second."""
THINKING = {"thinking": True, "enable_thinking": True}
"""Options of a chat template. Without them some parsers are made for answers without reasoning."""

_parsers: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""For each tokenizer of vLLM: the name of its engine's reasoning parser; empty if it has none."""
_found: WeakKeyDictionary[Any, Pairs] = WeakKeyDictionary()
"""For each tokenizer: the markers of this parser."""


def markers_of(params: Any, tokenizer: Any) -> Pairs:
    """Return the pairs of markers between which the stops of a request are ignored.

    Args:
        params: the ``SamplingParams`` of the request.
        tokenizer: the tokenizer of vLLM.

    Raises:
        ValueError: the markers of the request are not pairs.
    """
    given = (params.extra_args or {}).get(FIELD)
    if given is None:
        given = _setting()
    if not given:
        return ()
    if isinstance(given, str) and given.strip().lower() == AUTO:
        return _parser_markers(tokenizer)
    return _pairs(given)


def note_engine(tokenizer: Any, config: Any) -> None:
    """Keep the name of the reasoning parser of an engine with ``tokenizer``.

    Args:
        tokenizer: the tokenizer of the engine; None if it has none.
        config: the ``VllmConfig`` of the engine.
    """
    if tokenizer is not None:
        _parsers[tokenizer] = config.structured_outputs_config.reasoning_parser
        _found.pop(tokenizer, None)


def _pairs(given: Any) -> Pairs:
    """Return pairs of markers.

    ``given`` is a list of pairs, or flat, as vLLM's server needs it.
    """
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


def _parser_markers(tokenizer: Any) -> Pairs:
    """Return the markers of the reasoning parser of the engine with ``tokenizer``."""
    found = _found.get(tokenizer)
    if found is None:
        found = _found[tokenizer] = _ask_parser(tokenizer)
    return found


def _ask_parser(tokenizer: Any) -> Pairs:
    name = _parsers.get(tokenizer)
    if not name:
        say_once("stops count in the reasoning, too: vLLM was started without a reasoning parser")
        return ()
    try:
        from vllm.reasoning import ReasoningParserManager

        parser = ReasoningParserManager.get_reasoning_parser(name)(
            tokenizer, chat_template_kwargs=THINKING
        )
        start, end = parser.reasoning_start_str, parser.reasoning_end_str
        pairs = ((start, end),) if start and end else ()
        StopConditions(ignore_stops_between=pairs)
    except Exception as error:
        say_once(f"stops count in the reasoning, too: the parser {name} failed", exc_info=error)
        return ()
    if not pairs:
        say_once(f"stops count in the reasoning, too: the parser {name} names no markers")
    return pairs
