"""The actors of the page, in real Ray: a stream moves between two of them after each token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamdec import StopConditions, StopSequenceDecoder, load_tokenizer
from tests.integrations.moving.test_page import RAY, TEXT
from tests.support.pages import ROOT

ray: Any = pytest.importorskip("ray", reason="not installed: nox -s ray")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Any]]:
    runtime = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(num_cpus=4, include_dashboard=False, runtime_env=runtime, log_to_driver=False)
    names: dict[str, Any] = {
        "ray": ray,
        "load_tokenizer": load_tokenizer,
        "StopConditions": StopConditions,
        "StopSequenceDecoder": StopSequenceDecoder,
    }
    exec(RAY, names)
    yield [names["Worker"].remote("demo") for _ in range(2)]
    ray.shutdown()


def test_a_stream_moves_between_actors(workers: list[Any]) -> None:
    """After every token, within the emoji and within the stop."""
    ids = load_tokenizer("demo").encode(TEXT).ids
    snapshot: Any = None
    given = ""
    for place, token_id in enumerate(ids[:12]):
        text, snapshot = ray.get(workers[place % 2].run.remote([token_id], snapshot))
        given += text
    assert given == "Größe 😀"
    assert snapshot["end"] == ["", "stop", "\n\nUser:"]
