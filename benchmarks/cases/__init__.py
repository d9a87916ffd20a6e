"""All cases, in the order of the page."""

from __future__ import annotations

from benchmarks.cases.answers import ANSWERS, IMPORTS, ROUNDS
from benchmarks.cases.decode import DECODE
from benchmarks.cases.frontend import FRONTEND
from benchmarks.cases.peers import PEERS
from benchmarks.cases.streams import COLD, GROWTH, IDS, LONE, MEMORY, STEPS

CASES = (
    *ANSWERS,
    *ROUNDS,
    *IMPORTS,
    *STEPS,
    *COLD,
    *IDS,
    *GROWTH,
    *LONE,
    *MEMORY,
    *DECODE,
    *FRONTEND,
    *PEERS,
)
