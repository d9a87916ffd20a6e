"""Real streams, calls, loads and caches, in known numbers; and what both adapters made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

import streamdec
from streamdec import (
    StopConditions,
    StopSequenceDecoder,
    TokenIdError,
    TokenizerLoadError,
    iter_chunks,
    load_tokenizer,
)
from streamdec.errors import EncodeError
from streamdec.metrics import OpenTelemetryMetrics, PrometheusMetrics
from tests.hooks.recording import hooked
from tests.support.wrappers import Decoding

TOKENIZER = Path(streamdec.__file__).parent / "loading" / "demo" / "tokenizer.json"

OWL = "Hi 🦉"
"""As tokens "H", "i", " " with half an owl, a quarter, and a quarter."""

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
"""Value by name and labels."""


LETTERS = Decoding(lambda token_ids: "".join(chr(ord("a") + each) for each in token_ids))
"""A tokenizer of one's own: it has ``decode``, and so the route is the window."""


def act(folder: Path) -> object:
    """What is counted in the tests; gives what keeps caches and tables. ``folder`` is empty."""
    tokenizer = load_tokenizer(TOKENIZER, fast="now")
    with pytest.raises(TokenizerLoadError):
        load_tokenizer(folder / "nothing")
    refused = json.loads(TOKENIZER.read_text(encoding="utf-8"))
    refused["normalizer"] = {"type": "Replace", "pattern": {"Regex": "\\b"}, "content": ""}
    Path(folder, "tokenizer.json").write_text(json.dumps(refused), encoding="utf-8")
    load_tokenizer(folder, fast="now")
    _stream(tokenizer)
    letter = tokenizer.token_to_id("a") or 0
    for number in range(70):  # more than are kept, which the fixture sets to 64
        for _ in "12":  # a set is kept when it is asked for again
            StopSequenceDecoder(tokenizer, StopConditions(stop=f"ab{number}.")).step(letter)
    _call(tokenizer)
    return tokenizer


def _call(tokenizer: Any) -> None:
    assert tokenizer.encode(OWL).ids
    tokenizer.encode_batch([OWL, OWL, OWL])
    tokenizer.decode(tokenizer.encode(OWL).ids)
    with pytest.raises(EncodeError):
        tokenizer.encode("\ud800")
    with pytest.raises(TokenIdError, match="-1"):
        tokenizer.decode([-1])
    for text in ("one", "one", "two", "one", "one", "two"):
        tokenizer.encode(text)


def _stream(tokenizer: Any) -> None:
    """Eleven streams on the tokenizer, two on one of one's own."""
    ids = tokenizer.encode(OWL).ids
    assert len(ids) == 5
    end = ids[-1]
    read(ids, tokenizer)
    read(ids[:-1], tokenizer)
    read([*ids, 10**6], tokenizer, unknown_ids="skip")
    read(ids, tokenizer, stop="🦉")
    read(ids, tokenizer, stop="Hi there", finish_reason="stop")
    read(ids, tokenizer, stop_regex="[🦉]")
    read(ids, tokenizer, stop_token_ids=end)
    read(ids, tokenizer, eos_token_ids=end)
    read(ids, tokenizer, max_tokens=1)
    with pytest.raises(OSError, match="the engine"):
        read(breaking(ids), tokenizer)
    left = iter_chunks(ids, tokenizer)
    next(left)
    left.close()
    read([0, 1, 2], LETTERS)
    read([0, 1, 2], LETTERS, stop="c")


def breaking(ids: Sequence[int]) -> Iterator[int]:
    yield ids[0]
    raise OSError("the engine")


def read(ids: Any, tokenizer: Any, **options: Any) -> str:
    return "".join(chunk.text for chunk in iter_chunks(ids, tokenizer, **options))


@dataclass(frozen=True)
class Counted:
    """What each adapter shows."""

    prometheus: prometheus_client.CollectorRegistry
    translated: prometheus_client.CollectorRegistry
    """What OpenTelemetry's own exporter makes of its metrics for Prometheus."""
    opentelemetry: InMemoryMetricReader


@contextmanager
def counted() -> Iterator[Counted]:
    own, translated = (prometheus_client.CollectorRegistry() for _ in range(2))
    reader = InMemoryMetricReader()
    exporter = PrometheusMetricReader(
        disable_target_info=True, scope_info_enabled=False, registry=translated
    )
    provider = MeterProvider([reader, exporter], shutdown_on_exit=False)
    with hooked(PrometheusMetrics(own), OpenTelemetryMetrics(provider)):
        yield Counted(own, translated, reader)
    provider.shutdown()


def parsed(registry: Any) -> Samples:
    return samples_of(prometheus_client.generate_latest(registry).decode())


def samples_of(text: str) -> Samples:
    """All samples of a scrape, except their times of creation."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
