"""Find the stops that the withheld text may become.

In: a decoder that withholds text. Out: the stops that are partly matched. The decoder's own matcher
state is read, so gates, the prompt and ignored stops are taken into account.
"""

from __future__ import annotations

from streamdec.core.stop_sequence_decoder import StopSequenceDecoder


def possible_stops(decoder: StopSequenceDecoder) -> tuple[str, ...]:
    """Return the possible strings and the sources of possible patterns.

    They are ordered by where they begin.
    """
    if not decoder.jailed:
        return ()
    conditions, (tail, sizes) = decoder.conditions, decoder.seen
    begun = [(_begun(stop, tail), stop) for stop in conditions.stop]
    begun += zip(sizes, conditions.stop_regex, strict=True)
    found = sorted((-size, stop) for size, stop in begun if size)
    return tuple(stop for _, stop in found)


def _begun(stop: str, tail: str) -> int:
    """Return the length of the longest suffix of ``tail`` that begins ``stop``.

    The suffix is a proper prefix of ``stop``. Returns 0 if there is none.
    """
    sizes = range(min(len(stop) - 1, len(tail)), 0, -1)
    return next((size for size in sizes if tail.endswith(stop[:size])), 0)
