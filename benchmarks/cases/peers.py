"""The detokenizers of other projects, with and without stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import stops
from benchmarks.cases.streams import drawn, drive
from benchmarks.peers.hf import HfStreamer
from benchmarks.peers.kit import PeerMissingError
from benchmarks.peers.mlx_lm import MlxNaive, MlxOwn
from benchmarks.peers.sglang import Sglang, SglangBatch
from benchmarks.peers.vllm import VllmFast, VllmSlow
from benchmarks.runner import Case, Effort, Make, Work
from benchmarks.subjects import Subject
from streamdec.bench.entrants import Ours

ROWS: dict[str, Callable[..., Any]] = {
    "mlx-lm, own tables": MlxOwn,
    "mlx-lm, naive": MlxNaive,
    "vLLM, fast": VllmFast,
    "vLLM, slow": VllmSlow,
    "SGLang, batch of 1": Sglang,
    "SGLang, batch of 32": SglangBatch,
    "transformers' streamer": HfStreamer,
}
WITH_STOPS = ("vLLM, fast", "vLLM, slow", "SGLang, batch of 1")


def _peer(make: Callable[..., Any], count: int) -> Make:
    def work(subject: Subject, effort: Effort) -> Work:
        if subject.kit is None:
            raise PeerMissingError("no folder of peers was given")
        token_ids = subject.piece("code", effort.peer_tokens)
        peer = make(
            subject.kit, subject, drawn(stops.ORDINARY, count, subject.expected(token_ids)).stop
        )
        done = drive(peer, subject, token_ids)
        streams = peer.streams
        return Work(lambda: done.sample() / streams, "ns", done.check)

    return work


def _ours(count: int) -> Make:
    def work(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece("code", effort.peer_tokens)
        conditions = drawn(stops.ORDINARY, count, subject.expected(token_ids))
        return drive(Ours(subject.tokenizer, conditions), subject, token_ids)

    return work


PEERS = [
    case
    for count in (0, 4)
    for case in (
        Case("peers", f"{count or 'no'} stops: streamdec", _ours(count)),
        *(
            Case(
                "peers",
                f"{count or 'no'} stops: {row}",
                _peer(make, count),
                f"{count or 'no'} stops: streamdec",
                is_peer=True,
            )
            for row, make in ROWS.items()
            if not count or row in WITH_STOPS
        ),
    )
]
