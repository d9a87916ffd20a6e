"""A trace played again: do the same ids still do the same?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import SnapshotError, StreamdecError
from streamdec.protocols import Decoder
from streamdec.trace.records import MachineName, TokenRecord, Trace
from streamdec.trace.tracer import Traceable, Tracer

__all__ = ["Difference", "replay"]

_MACHINES: Mapping[MachineName, type[Traceable]] = {
    "decode_stream": DecodeStream,
    "stop": StopSequenceDecoder,
}
_COMPARED = (
    *("kind", "data", "position", "text", "held", "jailed", "may_become"),
    *("finish_reason", "stop_reason"),
)
"""All but the ids, which are what is played, and the pieces: another file of the same tokenizer may
spell those otherwise."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that went otherwise; as text one line for people.

    >>> from streamdec.trace import Difference
    >>> print(Difference(3, "text", "caf", "caf\ufffd"))
    at token 3 text was 'caf', and is 'caf�' now
    """

    token_index: int | None
    """The token; None: at the end."""
    what: str
    """The field of the record, or ``"error"``."""
    traced: Any
    """What the trace has."""
    played: Any
    """What came now."""

    def __str__(self) -> str:
        where = "at the end" if self.token_index is None else f"at token {self.token_index}"
        return f"{where} {self.what} was {self.traced!r}, and is {self.played!r} now"


def replay(trace: Trace, tokenizer: Decoder) -> Difference | None:
    """Plays ``trace`` on ``tokenizer``; the first difference, or None.

    The calls are those of the trace, from the state in which it began. Costs what a traced stream
    does.

    Raises :class:`~streamdec.SnapshotError` for one that is redacted, and for another tokenizer.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.trace import Tracer, replay
    >>> tracer = Tracer(DecodeStream(MockTokenizer()))
    >>> texts = tracer.step_batch([1, 2])
    >>> print(replay(tracer.trace(), MockTokenizer()))
    None
    """
    header = trace.header
    ids = [(token.chunk, token.token_id) for token in trace.tokens if token.token_id is not None]
    if header.snapshot is None or len(ids) < len(trace.tokens):
        raise SnapshotError("a redacted trace has no ids to play")
    kind = _MACHINES[header.machine]
    tracer: Tracer[Any] = Tracer(kind.restore(tokenizer, dict(header.snapshot)))
    try:
        for _, group in groupby(ids, key=itemgetter(0)):
            tracer.feed([token_id for _, token_id in group])
        if trace.end is not None and not tracer.finished:
            if trace.end.finish_reason is None and header.machine == "decode_stream":
                tracer.flush()
            else:
                tracer.end(trace.end.finish_reason or "length")
    except StreamdecError as error:
        played = len(tracer.trace().tokens)
        return Difference(played, "error", None, f"{type(error).__name__}: {error}")
    return next(_differences(trace, tracer.trace()), None)


def _differences(trace: Trace, played: Trace) -> Iterator[Difference]:
    for ours, theirs in zip(trace.tokens, played.tokens, strict=False):
        yield from _of(ours, theirs)
    if len(trace.tokens) != len(played.tokens):
        index = min(len(trace.tokens), len(played.tokens))
        yield Difference(index, "number of tokens", len(trace.tokens), len(played.tokens))
    if trace.end != played.end:
        yield Difference(None, "the flush", trace.end, played.end)
    # One may have nothing to compare with: a prompt is not in the trace.
    if {trace.verdict.equal, played.verdict.equal} == {True, False}:
        yield Difference(None, "the verdict", str(trace.verdict), str(played.verdict))


def _of(traced: TokenRecord, played: TokenRecord) -> Iterator[Difference]:
    for what in _COMPARED:
        if getattr(traced, what) != getattr(played, what):
            yield Difference(traced.index, what, getattr(traced, what), getattr(played, what))
