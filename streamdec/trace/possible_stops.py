"""Find the stops that the withheld text may become.

In: a decoder that withholds text. Out: the stops that are partly matched. The decoder's own matcher
state is read, so gates, the prompt and ignored stops are taken into account.
"""

from __future__ import annotations

from streamdec.decoders.stop_sequence_decoder import StopSequenceDecoder
from streamdec.trace.records import PossibleStop


def possible_stops(decoder: StopSequenceDecoder) -> tuple[PossibleStop, ...]:
    """Return the possible strings and patterns, then the token sequences.

    Strings and patterns are ordered by where they begin.
    """
    if not decoder.jailed:
        return ()
    conditions, (tail, sizes, live) = decoder.conditions, decoder.seen
    begun = [(_begun(stop, tail), stop) for stop in conditions.stop]
    begun += zip(sizes, conditions.stop_regex, strict=True)
    found = sorted((-size, stop) for size, stop in begun if size)
    sequences = (each for each in conditions.stop_token_sequences if _is_begun(each, live))
    return *(stop for _, stop in found), *sequences


def _begun(stop: str, tail: str) -> int:
    """Return the length of the longest suffix of ``tail`` that begins ``stop``.

    The suffix is a proper prefix of ``stop``. Returns 0 if there is none.
    """
    sizes = range(min(len(stop) - 1, len(tail)), 0, -1)
    return next((size for size in sizes if tail.endswith(stop[:size])), 0)


def _is_begun(sequence: tuple[int, ...], ids: tuple[int, ...]) -> bool:
    """Whether the last of ``ids`` begin ``sequence``, and are not all of it."""
    sizes = range(1, min(len(sequence) - 1, len(ids)) + 1)
    return any(ids[-size:] == sequence[:size] for size in sizes)
