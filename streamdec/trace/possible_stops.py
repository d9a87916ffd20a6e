"""Find the stops that the jailed text may become.

In: a decoder. Out: the stops that are partly matched.
"""

from __future__ import annotations

from streamdec.core.decode_stream import DecodeStream
from streamdec.core.patterns.matcher import PatternTail
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder


def possible_stops(decoder: DecodeStream | StopSequenceDecoder) -> tuple[str, ...]:
    """Return the possible strings and the sources of possible patterns.

    They are ordered by where they begin.
    """
    if not decoder.jailed:
        return ()
    # The matcher's own state is read: the jailed text does not show what a look-behind has seen,
    # or where ``ignore_stops_between`` switched the stops on.
    tail, conditions = decoder._state.seen.tail, decoder.conditions
    ages: list[int] = []
    if isinstance(tail, PatternTail):
        ages = [state.oldest for state in tail.states]
        tail = tail.strings
    begun = [(_begun(stop, tail), stop) for stop in conditions.stop]
    begun += zip(ages, conditions.stop_regex, strict=True)
    found = sorted((-size, stop) for size, stop in begun if size)
    return tuple(stop for _, stop in found)


def _begun(stop: str, tail: str) -> int:
    """Return the length of the longest suffix of ``tail`` that begins ``stop``.

    The suffix is a proper prefix of ``stop``. Returns 0 if there is none.
    """
    sizes = range(min(len(stop) - 1, len(tail)), 0, -1)
    return next((size for size in sizes if tail.endswith(stop[:size])), 0)
