"""How time is taken: as by ``streamdec bench``, whose clock this is."""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time_ns

from streamdec.bench import clock
from streamdec.bench.clock import Samples, Spread, fresh, in_turns, nanoseconds
from tests.benchmarks.entrants import Entrant

__all__ = ["Samples", "Spread", "fresh", "in_turns", "nanoseconds", "per_token"]


def per_token(entrant: Entrant, pieces: Sequence[Sequence[int]]) -> float:
    """What one token takes if each of ``pieces`` is a stream; to open them is not counted."""
    return clock.per_token(entrant, pieces, clock=thread_time_ns)
