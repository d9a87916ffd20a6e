"""What vLLM's front half gives; ``python -m tests.integrations.vllm.recording`` writes it down."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from tests.integrations.outputs.recorded import DATA, written
from tests.integrations.vllm.front_half import FrontHalf, as_json
from tests.support.zoo import ZOO

__all__ = ["PATH", "recording"]

PATH = DATA / "vllm-0.33.0.json"
GROUPS = [[309, 128], [115], [128, 254, 69], [221]]
IDS = [token_id for group in GROUPS for token_id in group]
KINDS = ("DELTA", "CUMULATIVE", "FINAL_ONLY")
ENDS: dict[str, tuple[str | None, int | None]] = {
    "the end token": ("STOP", None),
    "a stop token": ("STOP", 221),
    "the limit": ("LENGTH", None),
    "an abort": ("ABORT", None),
    "an error": ("ERROR", None),
    "repetition": ("REPETITION", None),
}


def recording() -> dict[str, Any]:
    """The file's content."""
    return {
        "engine": "vLLM",
        "version": version("vllm"),
        "how": "its OutputProcessor, fed by a script: tests/integrations/vllm/recording.py",
        "shape": "objects",
        "streams": [*_plain(), *_text_stops(), *_intervals(), *_aborted(), *_samples()],
    }


def _stream(
    name: str,
    outputs: list[Any],
    kind: str,
    ids: list[int],
    reason: str,
    stop: Any = None,
    **options: Any,
) -> dict[str, Any]:
    return {
        "name": f"{kind}, {name}",
        "options": {**options, **({"cumulative": True} if kind == "CUMULATIVE" else {})},
        "outputs": outputs,
        "token_ids": ids,
        "finish_reason": reason,
        "stop_reason": stop,
    }


def _plain() -> Iterator[dict[str, Any]]:
    """Ids alone, and each way to end."""
    for kind in KINDS:
        for name, (reason, stop) in ENDS.items():
            half = FrontHalf(None, kind=kind, detokenize=False)
            outputs = [as_json(output) for output in half.outputs(GROUPS, reason, stop)]
            assert reason
            yield _stream(name, outputs, kind, IDS, reason.lower(), stop)


def _text_stops() -> Iterator[dict[str, Any]]:
    """Stopped by its own detokenizer in the middle of a step: ids after the stop are dropped."""
    for kind in KINDS:
        half = FrontHalf(ZOO["byte_level_trained"](), kind=kind, stop=["s"])
        outputs = [as_json(output) for output in half.outputs([[69, 70], [82, 83, 84, 85]])]
        yield _stream("a text stop", outputs, kind, [69, 70, 82, 83], "stop", "s")


def _intervals() -> Iterator[dict[str, Any]]:
    """Fewer outputs than steps."""
    for kind in KINDS:
        half = FrontHalf(None, kind=kind, stream_interval=3, detokenize=False)
        outputs = [as_json(output) for output in half.outputs([[i] for i in IDS], "LENGTH")]
        yield _stream("every third", outputs, kind, IDS, "length")


def _aborted() -> Iterator[dict[str, Any]]:
    """Aborted by the caller, and read through the queue, which joins the unread outputs."""
    import asyncio

    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.output_processor import RequestOutputCollector

    for kind in KINDS[:2]:

        async def read(kind: str = kind) -> list[dict[str, Any]]:
            half = FrontHalf(None, kind=kind, detokenize=False)
            queue = RequestOutputCollector(RequestOutputKind[kind], "0")
            half.processor.request_states["0"].queue = queue
            half.step({"0": (GROUPS[0], None, None)})
            half.step({"0": (GROUPS[1], None, None)})
            outputs = [as_json(await queue.get())]
            half.step({"0": (GROUPS[2], None, None)})
            half.processor.abort_requests(["request"], internal=False)
            return [*outputs, as_json(await queue.get())]

        yield _stream(
            "joined in the queue, then aborted", asyncio.run(read()), kind, IDS[:-1], "abort"
        )


def _samples() -> Iterator[dict[str, Any]]:
    """Two samples, of which each is read."""
    for kind in KINDS:
        half = FrontHalf(None, kind=kind, detokenize=False, n=2)
        steps: list[dict[str, Any]] = [
            {"1_0": ([128], None, None), "0_0": ([309], None, None)},
            {"0_0": ([115], None, None), "1_0": ([115, 254], None, None)},
            {"0_0": ([69], "STOP", None), "1_0": ([69], None, None)},
            {"1_0": ([221], "LENGTH", None)},
        ]
        outputs = [as_json(output) for step in steps for output in half.step(step)]
        first, second = [309, 115, 69], [128, 115, 254, 69, 221]
        yield _stream("sample 0 of 2", outputs, kind, first, "stop", index=0)
        yield _stream("sample 1 of 2", outputs, kind, second, "length", index=1)


if __name__ == "__main__":
    PATH.write_text(written(recording()), "utf-8")
