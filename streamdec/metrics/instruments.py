"""The instruments: what is measured, in which unit, with which labels.

Each is read from one kind of event of ``streamdec.hooks``, or from statistics that the library
keeps in any case. Both adapters and the reference page are made from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from streamdec.backends.encoding_cache import CacheStatistics, total_statistics
from streamdec.core.stops.stop_sets import StopSetStatistics, stop_set_statistics
from streamdec.hooks import Call, FellBack, Loaded, StreamEnded

__all__ = ["INSTRUMENTS", "STATISTICS", "Buckets", "Instrument", "attribute", "field"]

Kind = Literal["counter", "histogram", "gauge", "updowncounter"]
"""The kinds of OpenTelemetry. Prometheus calls the last two gauges; the last one is summed over
processes."""


class Buckets(NamedTuple):
    """The bounds of a histogram."""

    bounds: tuple[float, ...]
    """Ascending; a value equal to a bound belongs to the bucket below it."""
    reason: str
    """Why these bounds."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Instrument:
    """One metric: what is counted, in which unit, with which labels.

    :data:`streamdec.metrics.INSTRUMENTS` lists all of them.

    >>> from streamdec.metrics import INSTRUMENTS
    >>> [(each.prometheus_name, each.labels) for each in INSTRUMENTS if each.unit == "{call}"][:1]
    [('streamdec_tokenizer_calls_total', ('tokenizer_type', 'operation'))]
    """

    name: str
    """The name in OpenTelemetry."""
    kind: Kind
    """The kind, as OpenTelemetry names it."""
    unit: str
    """The unit in UCUM; the thing counted is in braces."""
    description: str
    """What exactly is counted."""
    source: type[tuple[Any, ...]]
    """The type of the event or the statistics that it is read from."""
    value: str | None = None
    """The field of ``source`` with the value; None counts one."""
    labels: tuple[str, ...] = ()
    """The labels. Nothing is measured if the value of one is None."""
    buckets: Buckets | None = None
    """The bounds of a histogram; None for other kinds."""
    only_successes: bool = False
    """Whether events with an ``error_type`` are left out."""

    @property
    def prometheus_name(self) -> str:
        """The name in Prometheus, as OpenTelemetry's exporters for Prometheus translate ``name``.

        https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
        """
        unit = f"_{self.prometheus_unit}" if self.prometheus_unit else ""
        total = "_total" if self.kind == "counter" else ""
        return self.name.replace(".", "_") + unit + total

    @property
    def prometheus_unit(self) -> str:
        """The unit with which the name in Prometheus ends; empty for counts."""
        return _UNITS.get(self.unit, "")


_UNITS = {"s": "seconds", "By": "bytes"}
_ATTRIBUTES = {"error_type": "error.type"}
_FIELDS = {"kind": "stop_kind"}


def attribute(label: str) -> str:
    """Return the name of a label in OpenTelemetry, by its semantic conventions if they have one."""
    return _ATTRIBUTES.get(label, label)


def field(label: str) -> str:
    """Return the field of the event that a label is read from."""
    return _FIELDS.get(label, label)


# --- bounds ---------------------------------------------------------------------------------------

_TOKENS = Buckets(
    (1, 2, 5, 10, 20, 50, 100, 200, 500, *(n * 1000 for n in (1, 2, 5, 10, 20, 50, 100, 200))),
    "the steps of vLLM's request_generation_tokens, up to the longest contexts",
)
_CHARACTERS = Buckets(
    (*(step * 10**power for power in range(1, 6) for step in (1, 2, 5)), 1_000_000),
    "the steps of the tokens; a token has about four characters",
)
_HELD = Buckets(
    (0, 1, 2, 3, 16, 64, 256),
    "1 to 3 bytes of a character can wait; more do in runs of byte tokens only",
)
_JAILED = Buckets(
    (0, 1, 2, 4, 8, 16, 32, 64, 256, 1024),
    "what waits is shorter than a stop: 1 to 30 code points, more with a regex",
)
_WITHHELD = Buckets(
    (0, 1, 2, 3, 4, 8, 16, 32, 64, 256),
    "1 to 4 tokens for a character, up to a dozen for a stop, more with a regex",
)
_CALLS = Buckets(
    (
        *(0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5),
        *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
    ),
    "a short text takes 20 µs, a prompt of 100,000 tokens 100 ms, a batch seconds",
)
_LOADS = Buckets(
    (0.001, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    "a file takes 10 ms to 3 s, more where it is fetched first",
)

# --- streams --------------------------------------------------------------------------------------

_BY_ROUTE = ("tokenizer_type", "route")
_stream = partial(Instrument, source=StreamEnded, labels=_BY_ROUTE)

_STREAMS = (
    _stream(
        name="streamdec.streams",
        kind="counter",
        unit="{stream}",
        description="Streams that ended; abort includes streams that their reader left.",
        labels=(*_BY_ROUTE, "finish_reason"),
    ),
    _stream(
        name="streamdec.stream.tokens",
        kind="histogram",
        unit="{token}",
        description="Tokens that a stream read.",
        value="tokens",
        buckets=_TOKENS,
    ),
    _stream(
        name="streamdec.stream.chunks",
        kind="counter",
        unit="{chunk}",
        description="Chunks with text that streams emitted.",
        value="chunks",
    ),
    _stream(
        name="streamdec.stream.characters",
        kind="counter",
        unit="{character}",
        description="Code points that streams emitted.",
        value="characters",
    ),
    _stream(
        name="streamdec.stream.stops",
        kind="counter",
        unit="{stream}",
        description="Streams that a stop ended, by what stopped them: string, regex, token_id, "
        "token_sequence, eos, or engine where it stopped by itself.",
        labels=("tokenizer_type", "kind"),
    ),
    _stream(
        name="streamdec.stream.errors",
        kind="counter",
        unit="{stream}",
        description="Streams that an exception ended, by its class.",
        labels=("tokenizer_type", "error_type"),
    ),
    _stream(
        name="streamdec.stream.unknown_tokens",
        kind="counter",
        unit="{token}",
        description="Ids that streams read and the tokenizer does not have.",
        value="unknown_tokens",
    ),
    _stream(
        name="streamdec.stream.held_tokens",
        kind="counter",
        unit="{token}",
        description="Outputs of the engine that emitted no text, as a character was unfinished.",
        value="held_tokens",
    ),
    _stream(
        name="streamdec.stream.jailed_tokens",
        kind="counter",
        unit="{token}",
        description="Outputs of the engine that emitted no text, as it might have become a "
        "stop: partial matches.",
        value="jailed_tokens",
    ),
    _stream(
        name="streamdec.stream.incomplete_ends",
        kind="counter",
        unit="{stream}",
        description="Streams whose text ends in U+FFFD: the bytes of its last character never "
        "came.",
        value="ends_incomplete",
    ),
    _stream(
        name="streamdec.stream.max_held",
        kind="histogram",
        unit="By",
        description="The most bytes of a stream that waited for the end of their character.",
        value="max_held_bytes",
        buckets=_HELD,
    ),
    _stream(
        name="streamdec.stream.max_jailed_characters",
        kind="histogram",
        unit="{character}",
        description="The most code points of a stream that waited to become a stop or not.",
        value="max_jailed_characters",
        buckets=_JAILED,
    ),
    _stream(
        name="streamdec.stream.max_withheld_tokens",
        kind="histogram",
        unit="{token}",
        description="The most tokens of a stream that something waited for until it was given "
        "out, or was a stop.",
        value="max_withheld_tokens",
        buckets=_WITHHELD,
    ),
)

# --- encode and decode ----------------------------------------------------------------------------

_BY_OPERATION = ("tokenizer_type", "operation")
_call = partial(Instrument, source=Call, labels=_BY_OPERATION)

_CALLED = (
    _call(
        name="streamdec.tokenizer.calls",
        kind="counter",
        unit="{call}",
        description="Calls of encode, encode_batch and decode, also those that failed; what "
        "streams decode is not counted.",
    ),
    _call(
        name="streamdec.tokenizer.errors",
        kind="counter",
        unit="{call}",
        description="Calls that raised an exception, by its class.",
        labels=(*_BY_OPERATION, "error_type"),
    ),
    _call(
        name="streamdec.tokenizer.duration",
        kind="histogram",
        unit="s",
        description="How long a call took that did not fail; a batch is one call.",
        value="seconds",
        buckets=_CALLS,
        only_successes=True,
    ),
    _call(
        name="streamdec.tokenizer.texts",
        kind="counter",
        unit="{text}",
        description="Texts of the calls that did not fail.",
        value="texts",
        only_successes=True,
    ),
    _call(
        name="streamdec.tokenizer.tokens",
        kind="histogram",
        unit="{token}",
        description="Ids that came out of a call that encoded, or went into one that decoded; of "
        "all texts of a batch.",
        value="tokens",
        buckets=_TOKENS,
        only_successes=True,
    ),
    _call(
        name="streamdec.tokenizer.characters",
        kind="histogram",
        unit="{character}",
        description="Code points that went into a call that encoded, or came out of one that "
        "decoded; of all texts of a batch.",
        value="characters",
        buckets=_CHARACTERS,
        only_successes=True,
    ),
)

# --- loading --------------------------------------------------------------------------------------

_LOADED = (
    Instrument(
        name="streamdec.loads",
        kind="counter",
        unit="{tokenizer}",
        description="Tokenizers that load_tokenizer loaded.",
        source=Loaded,
        labels=("tokenizer_type", "format"),
        only_successes=True,
    ),
    Instrument(
        name="streamdec.load.errors",
        kind="counter",
        unit="{tokenizer}",
        description="Calls of load_tokenizer that raised an exception, by its class.",
        source=Loaded,
        labels=("error_type",),
    ),
    Instrument(
        name="streamdec.load.duration",
        kind="histogram",
        unit="s",
        description="How long load_tokenizer took where it did not fail, with what it had to "
        "fetch.",
        source=Loaded,
        value="seconds",
        labels=("tokenizer_type", "format"),
        buckets=_LOADS,
        only_successes=True,
    ),
    Instrument(
        name="streamdec.vocabulary.size",
        kind="gauge",
        unit="{token}",
        description="One more than the greatest id of a tokenizer that was loaded, by the name or "
        "path that load_tokenizer was given.",
        source=Loaded,
        value="vocab_size",
        labels=("tokenizer_type", "tokenizer"),
        only_successes=True,
    ),
    Instrument(
        name="streamdec.fallbacks",
        kind="counter",
        unit="{fallback}",
        description="How often huggingface encodes instead of fastokens. missing: fastokens is "
        "not installed; refused: it cannot be used for a tokenizer; fails: it failed for one call.",
        source=FellBack,
        labels=("tokenizer_type", "reason"),
    ),
)

# --- statistics that no hook receives -------------------------------------------------------------

_cache = partial(Instrument, source=CacheStatistics)

_CACHES = (
    _cache(
        name="streamdec.encoding_cache.hits",
        kind="counter",
        unit="{text}",
        description="Texts whose ids an EncodingCache had; of all caches of the process.",
        value="hits",
    ),
    _cache(
        name="streamdec.encoding_cache.misses",
        kind="counter",
        unit="{text}",
        description="Texts whose ids no EncodingCache had.",
        value="misses",
    ),
    _cache(
        name="streamdec.encoding_cache.evictions",
        kind="counter",
        unit="{text}",
        description="Texts that made room for others in an EncodingCache.",
        value="evictions",
    ),
    _cache(
        name="streamdec.encoding_cache.entries",
        kind="updowncounter",
        unit="{text}",
        description="Texts that are in an EncodingCache now.",
        value="entries",
    ),
    _cache(
        name="streamdec.encoding_cache.size",
        kind="updowncounter",
        unit="By",
        description="What the entries of all EncodingCaches take now.",
        value="num_bytes",
    ),
)

_stop_set = partial(Instrument, source=StopSetStatistics)

_STOP_SETS = (
    _stop_set(
        name="streamdec.stop_sets",
        kind="updowncounter",
        unit="{set}",
        description="Stop conditions that are kept ready, 4,096 at most for each tokenizer.",
        value="sets",
    ),
    _stop_set(
        name="streamdec.stop_sets.texts",
        kind="updowncounter",
        unit="{text}",
        description="Texts whose effect on them is stored, of about 150 bytes each.",
        value="texts",
    ),
    _stop_set(
        name="streamdec.stop_sets.dropped",
        kind="counter",
        unit="{set}",
        description="Stop conditions that made room for others.",
        value="dropped",
    ),
)

INSTRUMENTS: tuple[Instrument, ...] = (*_STREAMS, *_CALLED, *_LOADED, *_CACHES, *_STOP_SETS)
"""All instruments."""

STATISTICS: dict[type, Callable[[], tuple[int, ...]]] = {
    CacheStatistics: total_statistics,
    StopSetStatistics: stop_set_statistics,
}
"""The statistics that hooks do not receive, each with the function that returns them."""
