"""All cases of the frontend: those beside huggingface, and the router's twelve groups."""

from __future__ import annotations

from collections.abc import Mapping

from tests.benchmarks.frontend.common import FULL, QUICK, Case, Effort
from tests.benchmarks.frontend.encode_cases import ENCODE_CASES
from tests.benchmarks.frontend.first_token import FIRST_TOKEN_CASES
from tests.benchmarks.frontend.stream_cases import STREAM_CASES
from tests.benchmarks.frontend.thread_cases import THREAD_CASES

__all__ = ["CASES", "FULL", "GROUPS", "QUICK", "Case", "Effort"]

GROUPS = (
    "encode",
    "batch",
    "concurrent-encode",
    "decode",
    "streaming",
    "latency",
    "concurrent-streaming",
    "stop-sequences",
    "threads-encode",
    "threads-decode",
    "memory",
    "scaling",
)
"""The twelve groups of the SGLang router, in the same order."""

_ALL = {**ENCODE_CASES, **THREAD_CASES, **STREAM_CASES, **FIRST_TOKEN_CASES}

CASES: Mapping[str, Case] = {
    name: _ALL[name] for name in ("load", "first-token", "async-threads", *GROUPS)
}
