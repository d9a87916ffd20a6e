"""The tracer: a decoder that also records each token.

The decoder receives the same calls as without a tracer, and its results are returned unchanged. For
a call with several ids, a fork of the decoder shows the effect of each id.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, tee
from typing import Any, Generic, SupportsIndex, TypeVar

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.decode_options import Options
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.patterns.matcher import PatternTail
from streamdec.core.shared_tables import table_for
from streamdec.core.stepping import has_sections
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import as_sequence
from streamdec.protocols import Decoder
from streamdec.tokenizers.tokenizer_report import versions_of
from streamdec.trace.records import End, Header, Kind, TokenRecord, Trace, Verdict
from streamdec.trace.verdict import verdict_on

Traceable = DecodeStream | StopSequenceDecoder
"""The decoders that can be traced."""

_UNTRACED = frozenset({"flush_bytes", "release", "step_bytes"})
"""Methods of decoders that a trace has no record for."""

D = TypeVar("D", DecodeStream, StopSequenceDecoder)


class Tracer(Generic[D]):
    r"""A decoder, with a record of each token that it was given.

    It has the methods and properties of the decoder, and returns and raises what the decoder does.
    Streams accept it in place of the decoder. ``reset`` begins a new trace. Copies (``fork``,
    ``copy``, ``pickle``) are copies of the decoder and are not traced. ``step_bytes``,
    ``flush_bytes`` and ``release`` cannot be traced and raise AttributeError.

    Each id costs some microseconds more, and some 300 bytes until ``reset``. Use it to examine a
    stream, not to serve.

    Args:
        decoder: a DecodeStream or a StopSequenceDecoder. Step it only through the tracer from now
            on.
        prompt_token_ids: the decoder's prompt, which decoders do not keep. Without it, a stream
            that began after a prompt is not compared. Nor is one that began before the trace.

    Raises TypeError if ``decoder`` is not such a decoder.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.trace import Tracer
    >>> tracer = Tracer(DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])))
    >>> [tracer.step(token_id) for token_id in range(3)], tracer.flush()
    (['caf', '', 'é'], '')
    >>> trace = tracer.trace()
    >>> [(token.text, token.held.hex()) for token in trace.tokens]
    [('caf', ''), ('', 'c3'), ('é', '')]
    >>> print(trace.verdict)
    equal to the full decode: yes
    """

    def __init__(self, decoder: D, prompt_token_ids: Iterable[SupportsIndex] | None = None) -> None:
        if not isinstance(decoder, Traceable):
            message = "decoder must be a DecodeStream or a StopSequenceDecoder, not"
            raise TypeError(f"{message} {type(decoder).__name__}")
        self.decoder: D = decoder
        """The decoder itself."""
        self._machine: Any = decoder
        self._given_prompt: tuple[int, ...] | None = None
        if prompt_token_ids is not None:
            self._given_prompt = tuple(each.__index__() for each in as_sequence(prompt_token_ids))
        self._begin()

    def _begin(self) -> None:
        self._header = _header(self.decoder)
        self._prompt = self._given_prompt
        if self._machine.num_tokens:  # the ids before the trace are unknown
            self._prompt = None
        self._ids: list[int] = []
        self._tokens: list[TokenRecord] = []
        self._output_before: int = self._machine.num_characters
        """The number of code points that were output before the trace."""
        self._table = table_for(self._machine.tokenizer, Options(**self._machine.options))
        self._calls = 0
        self._end: End | None = None
        self._error: str | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _UNTRACED:
            raise AttributeError(f"{name}() cannot be traced; use step(), step_batch() or flush()")
        return getattr(self._machine, name)

    def __copy__(self) -> D:
        return copy.copy(self.decoder)

    def __reduce__(self) -> Any:
        return self._machine.__reduce__()

    def __repr__(self) -> str:
        return f"<Tracer of {self.decoder!r}>"

    # --- the decoders' methods

    def step(self, token_id: SupportsIndex) -> Any:
        """Call the decoder's ``step``, and record ``token_id``."""
        return self._one(self._machine.step, token_id)

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> Any:
        """Call the decoder's ``step_batch``, and record each of ``token_ids``."""
        return self._several(self._machine.step_batch, token_ids)

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Any:
        """Call the decoder's ``feed``, and record each of ``token_ids``."""
        return self._several(self._machine.feed, token_ids)

    def flush(self, *arguments: FinishReason, **named: FinishReason) -> Any:
        """Call the decoder's ``flush`` with these arguments, and record its output.

        Nothing is recorded if the stream had already ended.
        """
        ended = self.decoder.finished
        with self._noting_errors():
            given = self._machine.flush(*arguments, **named)
        if not ended:
            chunk = _as_chunk(given)
            self._end = End(chunk.text, chunk.finish_reason, chunk.stop_reason)
        return given

    def reset(self) -> None:
        """Call the decoder's ``reset``, and begin a new trace."""
        self._machine.reset()
        self._begin()

    def trace(self) -> Trace:
        """Return the trace so far, with a verdict if the stream has ended."""
        trace = Trace(self._header, tuple(self._tokens), self._end, self._error)
        machine = self.decoder
        if not machine.finished:
            return trace
        if has_sections(machine):
            verdict = Verdict(None, reason="the markers of sections are not output")
        else:
            verdict = verdict_on(trace, machine.tokenizer, self._ids, self._prompt, machine.match)
        return replace(trace, verdict=verdict)

    # --- recording

    def _one(self, call: Callable[[Any], Any], token_id: SupportsIndex) -> Any:
        """Make a call with one id, and record the state of the decoder after it."""
        position = self._position(self.decoder)
        try:
            with self._noting_errors():
                given = call(token_id)
            with self._doing_no_harm():
                self._record(self.decoder, token_id, _as_chunk(given), position)
        finally:
            self._calls += 1
        return given

    def _several(self, call: Callable[[Any], Any], token_ids: Iterable[SupportsIndex]) -> Any:
        """Make a call with several ids, and record the effect of each on a fork."""
        before, again = self.decoder.fork(), token_ids
        if isinstance(token_ids, Iterator):
            token_ids, again = tee(token_ids)
        with self._noting_errors():
            try:
                return call(token_ids)
            finally:
                self._write_down(before, again)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"
            raise

    def _write_down(self, decoder: Any, ids: Iterable[Any]) -> None:
        """Record the ids that a call took, by stepping a fork from before the call."""
        taken = self.decoder.num_tokens - decoder.num_tokens
        with self._doing_no_harm():
            for token_id in islice(ids, taken) if taken else ():
                position = self._position(decoder)
                self._record(decoder, token_id, _as_chunk(decoder.step(token_id)), position)
        self._calls += 1

    @contextmanager
    def _doing_no_harm(self) -> Iterator[None]:
        """Note an error of the recording alone, instead of raising it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._error = f"the record is incomplete: {type(error).__name__}: {error}"

    def _position(self, decoder: Any) -> int:
        """Return how many code points of the trace were output or jailed so far."""
        output: int = decoder.num_characters - self._output_before
        return output + len(decoder.jailed)

    def _record(self, decoder: Any, given_id: SupportsIndex, chunk: Chunk, position: int) -> None:
        """Record one id, which ``decoder`` has taken."""
        token_id, tokenizer = given_id.__index__(), decoder.tokenizer
        self._ids.append(token_id)
        self._tokens.append(
            TokenRecord(
                index=len(self._tokens),
                token_id=token_id,
                piece=_asked(tokenizer, "id_to_token", token_id, str),
                data=_asked(tokenizer, "token_bytes", token_id, bytes),
                kind=self._kind(decoder, token_id),
                position=position,
                text=chunk.text,
                held=decoder.held,
                jailed=decoder.jailed,
                may_become=possible_stops(decoder),
                chunk=self._calls,
                finish_reason=chunk.finish_reason,
                stop_reason=chunk.stop_reason,
            )
        )

    def _kind(self, decoder: Any, token_id: int) -> Kind:
        if not self._table.knows(token_id):
            return "unknown"
        if _asked(decoder.tokenizer, "is_skipped", token_id, bool):
            return "skipped" if decoder.options["skip_special_tokens"] else "special"
        return "text"


def _header(decoder: Traceable) -> Header:
    tokenizer: Decoder = decoder.tokenizer
    fingerprint = getattr(tokenizer, "fingerprint", None)
    conditions = decoder.conditions.to_json() if isinstance(decoder, StopSequenceDecoder) else None
    return Header(
        machine="decode_stream" if conditions is None else "stop",
        tokenizer=str(getattr(tokenizer, "name", None) or ""),
        tokenizer_class=type(tokenizer).__name__,
        fingerprint=fingerprint if isinstance(fingerprint, str) else None,
        route=decoder.route,
        options=decoder.options,
        conditions=conditions,
        after_prompt=decoder.num_tokens + decoder.num_prompt_tokens > 0,
        versions=versions_of(["tokenizers"]),
    )


def _as_chunk(given: str | Chunk) -> Chunk:
    return given if isinstance(given, Chunk) else Chunk(given)


def _asked(tokenizer: object, name: str, token_id: int, kind: type) -> Any:
    """Return what the tokenizer answers; None if it is not of type ``kind``."""
    try:
        found = getattr(tokenizer, name)(token_id)
    except Exception:  # noqa: BLE001 (a user's tokenizer may raise, or lack the method)
        return None
    return found if isinstance(found, kind) else None


def possible_stops(decoder: Traceable) -> tuple[str, ...]:
    """Return the stops that jailed text may become, by where they begin."""
    if not decoder.jailed:
        return ()
    # The matcher's own state is read: the jailed text does not show what a look-behind has seen,
    # or where ``ignore_stops_between`` switched the stops on.
    tail, conditions = decoder._state.seen.tail, decoder.conditions
    ages: list[int] = []
    if isinstance(tail, PatternTail):
        ages = [state.oldest for state in tail.states]
        tail = tail.strings
    begun = [(_begun(stop, tail), stop) for stop in conditions.stop]
    begun += zip(ages, conditions.stop_regex, strict=True)
    found = sorted((-size, stop) for size, stop in begun if size)
    return tuple(stop for _, stop in found)


def _begun(stop: str, tail: str) -> int:
    """Return how many code points of ``stop``, but not all, end ``tail``."""
    sizes = range(min(len(stop) - 1, len(tail)), 0, -1)
    return next((size for size in sizes if tail.endswith(stop[:size])), 0)
