"""One run of everything that is counted, for all tests that look at what came of it."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.metrics.export import Metric

from streamdec.backends.hybrid import VARIABLE
from streamdec.core import stop_sets
from streamdec.metrics.instruments import Instrument
from streamdec.metrics.recorder import readings
from tests.metrics.activity import Samples, act, counted, parsed


@dataclass(frozen=True)
class Run:
    """What both adapters made of the run."""

    prometheus: Samples
    translated: Samples
    opentelemetry: dict[str, Metric]
    before: dict[Instrument, int]
    """What the process had counted before."""


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    before = dict(readings())
    with pytest.MonkeyPatch.context() as patch, counted() as made:
        patch.delenv(VARIABLE, raising=False)
        patch.setattr(stop_sets, "MAX_SETS", 64)
        kept = act(tmp_path_factory.mktemp("metrics"))
        gc.collect()  # or stop sets of other tests end between two readings
        data = made.opentelemetry.get_metrics_data()
        assert data is not None
        [scope] = data.resource_metrics[0].scope_metrics
        assert scope.scope.name == "streamdec"
        run = Run(
            parsed(made.prometheus),
            parsed(made.translated),
            {metric.name: metric for metric in scope.metrics},
            before,
        )
        del kept
    return run
