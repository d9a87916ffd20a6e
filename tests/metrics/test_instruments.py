"""The table of instruments: names, units and labels on which dashboards are built."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamdec.metrics.instruments import INSTRUMENTS, Instrument, field

PUBLISHED = """\
counter {stream} streamdec.streams streamdec_streams_total tokenizer_type route finish_reason
histogram {token} streamdec.stream.tokens streamdec_stream_tokens tokenizer_type route
counter {chunk} streamdec.stream.chunks streamdec_stream_chunks_total tokenizer_type route
counter {character} streamdec.stream.characters streamdec_stream_characters_total tokenizer_type route
counter {stream} streamdec.stream.stops streamdec_stream_stops_total tokenizer_type kind
counter {stream} streamdec.stream.errors streamdec_stream_errors_total tokenizer_type error_type
counter {token} streamdec.stream.unknown_tokens streamdec_stream_unknown_tokens_total tokenizer_type route
counter {token} streamdec.stream.held_tokens streamdec_stream_held_tokens_total tokenizer_type route
counter {token} streamdec.stream.jailed_tokens streamdec_stream_jailed_tokens_total tokenizer_type route
counter {stream} streamdec.stream.incomplete_ends streamdec_stream_incomplete_ends_total tokenizer_type route
histogram By streamdec.stream.max_held streamdec_stream_max_held_bytes tokenizer_type route
histogram {character} streamdec.stream.max_jailed_characters streamdec_stream_max_jailed_characters tokenizer_type route
histogram {token} streamdec.stream.max_pending_tokens streamdec_stream_max_pending_tokens tokenizer_type route
counter {call} streamdec.tokenizer.calls streamdec_tokenizer_calls_total tokenizer_type operation
counter {call} streamdec.tokenizer.errors streamdec_tokenizer_errors_total tokenizer_type operation error_type
histogram s streamdec.tokenizer.duration streamdec_tokenizer_duration_seconds tokenizer_type operation
counter {text} streamdec.tokenizer.texts streamdec_tokenizer_texts_total tokenizer_type operation
histogram {token} streamdec.tokenizer.tokens streamdec_tokenizer_tokens tokenizer_type operation
histogram {character} streamdec.tokenizer.characters streamdec_tokenizer_characters tokenizer_type operation
counter {tokenizer} streamdec.loads streamdec_loads_total tokenizer_type format
counter {tokenizer} streamdec.load.errors streamdec_load_errors_total error_type
histogram s streamdec.load.duration streamdec_load_duration_seconds tokenizer_type format
gauge {token} streamdec.vocabulary.size streamdec_vocabulary_size tokenizer_type tokenizer
counter {fallback} streamdec.fallbacks streamdec_fallbacks_total tokenizer_type reason
counter {text} streamdec.encoding_cache.hits streamdec_encoding_cache_hits_total
counter {text} streamdec.encoding_cache.misses streamdec_encoding_cache_misses_total
counter {text} streamdec.encoding_cache.evictions streamdec_encoding_cache_evictions_total
updowncounter {text} streamdec.encoding_cache.entries streamdec_encoding_cache_entries
updowncounter By streamdec.encoding_cache.size streamdec_encoding_cache_size_bytes
updowncounter {set} streamdec.stop_sets streamdec_stop_sets
updowncounter {text} streamdec.stop_sets.texts streamdec_stop_sets_texts
counter {set} streamdec.stop_sets.dropped streamdec_stop_sets_dropped_total
"""  # noqa: E501
"""Who changes one of these breaks somebody's dashboard."""


def test_names_units_and_labels_are_those_that_were_published() -> None:
    lines = [
        " ".join([each.kind, each.unit, each.name, each.prometheus_name, *each.labels])
        for each in INSTRUMENTS
    ]
    assert lines == PUBLISHED.splitlines()


@pytest.mark.parametrize("each", INSTRUMENTS, ids=lambda each: each.name)
def test_an_instrument_is_one_that_can_be_read(each: Instrument) -> None:
    fields: Any = each.source._fields  # type: ignore[attr-defined]
    assert {field(label) for label in each.labels} <= {*fields}
    assert each.value is None or each.value in fields
    assert not each.only_successes or "error_type" in fields
    assert (each.buckets is not None) == (each.kind == "histogram")
    assert re.fullmatch(r"[A-Z].*\.", each.description)
    if each.buckets is not None:
        assert each.buckets.bounds == tuple(sorted(set(each.buckets.bounds)))
        assert each.buckets.reason
