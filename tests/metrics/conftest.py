"""One run of everything that is counted, for all tests that look at what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import prometheus_client.openmetrics.exposition as openmetrics
import pytest
from opentelemetry.sdk.metrics.export import Metric

from streamdec.fastpath.fast_path import VARIABLE
from tests.hooks.recording import Recording, recording
from tests.metrics.activity import Samples, act, counted, parsed


@dataclass(frozen=True)
class Run:
    """What was told, and what was made of it."""

    told: Recording
    prometheus: Samples
    openmetrics: str
    translated: Samples
    opentelemetry: dict[str, Metric]


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch, recording() as told, counted() as made:
        patch.delenv(VARIABLE, raising=False)
        act(tmp_path_factory.mktemp("metrics"))
        data = made.opentelemetry.get_metrics_data()
        assert data is not None
        [scope] = data.resource_metrics[0].scope_metrics
        assert scope.scope.name == "streamdec"
        return Run(
            told,
            parsed(made.prometheus),
            openmetrics.generate_latest(made.prometheus).decode(),  # type: ignore[no-untyped-call]
            parsed(made.translated),
            {metric.name: metric for metric in scope.metrics},
        )
