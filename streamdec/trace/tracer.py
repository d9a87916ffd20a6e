"""The tracer: stands before a decoder, and writes down what happens.

In: a decoder, and the calls that are meant for it. Out: what the decoder itself gives, unchanged,
and a :class:`~streamdec.trace.records.Trace`. The decoder is asked as it would be without; what
several ids of one call did is found out on a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any, Generic, SupportsIndex, TypeVar

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.sequence import Sequence as TokenSequence
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_sequence import StopSequenceDecoder
from streamdec.core.token_ids import as_sequence
from streamdec.machines import Face, face_of
from streamdec.protocols import Decoder
from streamdec.trace.records import End, Header, Kind, MachineName, TokenRecord, Trace
from streamdec.trace.verdict import verdict_on

__all__ = ["Traceable", "Tracer"]

Traceable = DecodeStream | TokenSequence | StopSequenceDecoder
"""What can be traced."""

D = TypeVar("D", DecodeStream, TokenSequence, StopSequenceDecoder)

_NAMES: dict[type, MachineName] = {
    DecodeStream: "decode_stream",
    TokenSequence: "sequence",
    StopSequenceDecoder: "stop",
}


class Tracer(Generic[D]):
    r"""A decoder, and what happened to each token it was given.

    Has the methods and properties of the decoder; what they give is what it gives, and an error is
    its error. Streams and iterators take it in the place of its decoder. Each id costs some
    microseconds more and a record of some hundred bytes, so this is for looking into a stream and
    not for serving. ``reset`` begins a new trace, and so does cutting a Sequence back to before
    where its trace began; copies (``fork``) are those of the decoder, and not traced.

    Args:
        decoder: a DecodeStream, a Sequence or a StopSequenceDecoder. From now on it is stepped
            through the tracer alone.
        prompt_token_ids: those the decoder was given, if the verdict shall compare a stream that
            began after a prompt; decoders do not keep them. (A Sequence does.) A stream that is
            under way when its trace begins is not compared.

    Raises TypeError for what is no such decoder.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> tracer = Tracer(DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])))
    >>> [tracer.step(token_id) for token_id in range(3)], tracer.flush()
    (['caf', '', 'é'], '')
    >>> trace = tracer.trace()
    >>> [(token.text, token.held.hex()) for token in trace.tokens]
    [('caf', ''), ('', 'c3'), ('é', '')]
    >>> print(trace.verdict)
    equal to the whole decode: yes
    """

    def __init__(self, decoder: D, prompt_token_ids: Iterable[SupportsIndex] | None = None) -> None:
        if not isinstance(decoder, Traceable):
            raise TypeError(
                "decoder must be a DecodeStream, a Sequence or a StopSequenceDecoder, not "
                f"{type(decoder).__name__}"
            )
        self.decoder: D = decoder
        """The decoder itself."""
        self._machine: Any = decoder
        self._prompt: tuple[int, ...] | None = None
        if prompt_token_ids is not None:
            self._prompt = tuple(each.__index__() for each in as_sequence(prompt_token_ids))
        self._begin()

    def _begin(self) -> None:
        self._header = _header(self.decoder)
        if isinstance(self.decoder, TokenSequence):
            self._prompt = tuple(self.decoder.token_ids)
        elif self._machine.num_tokens:  # it is under way, and what it was given is not known
            self._prompt = None
        self._ids: list[int] = []
        self._tokens: list[TokenRecord] = []
        self._given = 0
        self._calls = 0
        self._end: End | None = None
        self._error: str | None = None

    def __getattr__(self, name: str) -> Any:
        if (
            name.startswith("__") or name == "decoder"
        ):  # copying and pickling ask before there is one
            raise AttributeError(name)
        return getattr(self._machine, name)

    def __len__(self) -> int:
        return len(self._machine)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Tracer of {self.decoder!r}>"

    # --- the decoders' verbs

    def step(self, token_id: SupportsIndex) -> Any:
        """The decoder's ``step``, written down."""
        return self._one(self._machine.step, token_id)

    def append_token(self, token_id: SupportsIndex) -> Any:
        """The Sequence's ``append_token``, written down."""
        return self._one(self._machine.append_token, token_id)

    def step_bytes(self, token_id: SupportsIndex) -> Any:
        """The DecodeStream's ``step_bytes``; its text is written down."""
        return self._several(self._machine.step_bytes, token_id, [token_id])

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> Any:
        """The decoder's ``step_batch``, written down token by token."""
        ids = as_sequence(token_ids)
        return self._several(self._machine.step_batch, ids, ids)

    def append_tokens(self, token_ids: Iterable[SupportsIndex]) -> Any:
        """The Sequence's ``append_tokens``, written down token by token."""
        ids = as_sequence(token_ids)
        return self._several(self._machine.append_tokens, ids, ids)

    def append_text(self, text: str, *, add_special_tokens: bool = False) -> Any:
        """The Sequence's ``append_text``, written down token by token."""
        sequence = self._machine
        known = len(sequence)
        before = _stepped(sequence).fork()
        try:
            return sequence.append_text(text, add_special_tokens=add_special_tokens)
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self._write_down(before, sequence.token_ids[known:])

    def flush(self, *arguments: FinishReason, **named: FinishReason) -> Any:
        """The decoder's ``flush``, written down unless the stream has ended."""
        return self._flushed(self._machine.flush, *arguments, **named)

    def flush_bytes(self) -> Any:
        """The DecodeStream's ``flush_bytes``; its text is written down."""
        stream = self._machine
        self._flushed(stream.fork().flush)
        return stream.flush_bytes()

    def reset(self) -> None:
        """The decoder's ``reset``; what was written down is forgotten."""
        self._machine.reset()
        self._begin()

    def truncate(self, num_tokens: int) -> None:
        """The Sequence's ``truncate``; what was written down of the tokens cut off is forgotten."""
        sequence = self._machine
        sequence.truncate(num_tokens)
        left = num_tokens - len(self._prompt or ())
        if left < 0:
            self._begin()
        elif left < len(self._tokens):
            del self._tokens[left:], self._ids[left:]
            self._given = sum(len(token.text) for token in self._tokens)

    def snapshot(self) -> dict[str, Any]:
        """The decoder's ``snapshot``."""
        snapshot: dict[str, Any] = self._machine.snapshot()
        return snapshot

    def face(self) -> Face:
        """The decoder's face, written down: with it the tracer stands in for it in a stream."""
        return _TracedFace(self, face_of(self.decoder))

    def trace(self) -> Trace:
        """What happened so far; the verdict is there as soon as the stream has ended.

        A Sequence has no end: its verdict is on the text that it has.
        """
        trace = Trace(self._header, tuple(self._tokens), self._end, self._error)
        machine = self.decoder
        pending = ""
        if isinstance(machine, TokenSequence):
            pending = _stepped(machine).fork().flush()
        elif not machine.finished:
            return trace
        verdict = verdict_on(trace, machine.tokenizer, self._ids, self._prompt, pending)
        return replace(trace, verdict=verdict)

    # --- what is written down

    def _one(self, call: Callable[[Any], Any], token_id: SupportsIndex) -> Any:
        """A call with one id: the decoder is then as it was after it."""
        withheld = self._withheld()
        try:
            given = call(token_id)
        except Exception as error:
            self._failed(error)
            self._calls += 1
            raise
        self._record(_stepped(self.decoder), token_id.__index__(), _as_chunk(given), withheld)
        self._calls += 1
        return given

    def _several(self, call: Callable[[Any], Any], argument: Any, ids: Sequence[Any]) -> Any:
        before = _stepped(self.decoder).fork()
        try:
            return call(argument)
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self._write_down(before, ids)

    def _failed(self, error: Exception) -> None:
        self._error = f"{type(error).__name__}: {error}"

    def _write_down(self, decoder: Any, ids: Iterable[Any]) -> None:
        """The ids of a call, one by one, on the decoder as it was before."""
        for token_id in ids:
            withheld = len(getattr(decoder, "jailed", ""))
            try:
                chunk = _as_chunk(decoder.step(token_id))
            except Exception:  # noqa: BLE001 (the decoder itself has raised it; the stream may go on)
                break
            self._record(decoder, token_id.__index__(), chunk, withheld)
            if chunk.finish_reason is not None:
                break
        self._calls += 1

    def _withheld(self) -> int:
        return len(getattr(self.decoder, "jailed", ""))

    def _record(self, decoder: Any, token_id: int, chunk: Chunk, withheld: int) -> None:
        tokenizer: Any = decoder.tokenizer
        jailed = getattr(decoder, "jailed", "")
        self._ids.append(token_id)
        self._end = None  # a Sequence can grow after it
        may_become: tuple[str, ...] = ()
        if jailed:
            may_become = _may_become(jailed, decoder.conditions, self._ids)
        self._tokens.append(
            TokenRecord(
                index=len(self._tokens),
                token_id=token_id,
                piece=_asked(tokenizer, "id_to_token", token_id),
                data=_asked(tokenizer, "token_bytes", token_id),
                kind=_kind(tokenizer, token_id, decoder.options),
                position=self._given + withheld,
                text=chunk.text,
                held=decoder.held,
                jailed=jailed,
                may_become=may_become,
                chunk=self._calls,
                finish_reason=chunk.finish_reason,
                stop_reason=chunk.stop_reason,
            )
        )
        self._given += len(chunk.text)

    def _flushed(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        ended = getattr(self.decoder, "finished", False)
        given = call(*arguments, **named)
        if not ended:
            chunk = _as_chunk(given)
            self._end = End(chunk.text, chunk.finish_reason, chunk.stop_reason)
        return given


class _TracedFace:
    """The face of a decoder; what goes through it is written down."""

    def __init__(self, tracer: Tracer[Any], face: Face) -> None:
        self._tracer = tracer
        self._face = face
        self.release = face.release

    def step(self, token_id: SupportsIndex) -> Chunk:
        chunk: Chunk = self._tracer._one(self._face.step, token_id)
        return chunk

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        chunk: Chunk = self._tracer._several(self._face.step_batch, token_ids, token_ids)
        return chunk

    def flush(self, finish_reason: FinishReason) -> Chunk:
        chunk: Chunk = self._tracer._flushed(self._face.flush, finish_reason)
        return chunk

    @property
    def finished(self) -> bool:
        return self._face.finished

    @property
    def jailed(self) -> str:
        return self._face.jailed

    @property
    def held(self) -> bytes:
        return self._face.held


def _stepped(decoder: Traceable) -> Any:
    """What is stepped: of a Sequence its stream, whose copies do not grow with it."""
    return decoder._stream if isinstance(decoder, TokenSequence) else decoder


def _header(decoder: Traceable) -> Header:
    stepped = _stepped(decoder)
    tokenizer: Decoder = decoder.tokenizer
    conditions = decoder.conditions.to_json() if isinstance(decoder, StopSequenceDecoder) else None
    if isinstance(decoder, TokenSequence):
        after_prompt = len(decoder) > 0
    else:
        after_prompt = decoder.num_tokens > 0 or decoder._primed != decoder._program.prime(())
    return Header(
        machine=next(name for kind, name in _NAMES.items() if isinstance(decoder, kind)),
        tokenizer=str(getattr(tokenizer, "name", "")),
        tokenizer_class=type(tokenizer).__name__,
        fingerprint=getattr(tokenizer, "fingerprint", None),
        route=stepped.route,
        options=stepped.options,
        conditions=conditions,
        after_prompt=after_prompt,
        snapshot=decoder.snapshot(),
        versions={name: _version(name) for name in ("streamdec", "tokenizers")},
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # run from its sources
        return "not installed"


def _as_chunk(given: str | Chunk) -> Chunk:
    return given if isinstance(given, Chunk) else Chunk(given)


def _asked(tokenizer: object, name: str, token_id: int) -> Any:
    """What the tokenizer says, if it is one that can be asked."""
    ask = getattr(tokenizer, name, None)
    return None if ask is None else ask(token_id)


def _kind(tokenizer: Any, token_id: int, options: dict[str, Any]) -> Kind:
    if not hasattr(tokenizer, "piece"):
        return "text"
    if tokenizer.piece(token_id) is None:
        return "unknown"
    if tokenizer.is_skipped(token_id):
        return "skipped" if options["skip_special_tokens"] else "special"
    return "text"


def _may_become(jailed: str, conditions: StopConditions, ids: Sequence[int]) -> tuple[str, ...]:
    """The stops that an end of ``jailed`` begins; those that begin first come first."""
    begun = [
        (start, stop) for stop in conditions.stop if (start := _begins(stop, jailed)) is not None
    ]
    sequences = [
        "ids " + " ".join(map(str, sequence))
        for sequence in conditions.stop_token_sequences
        if any(tuple(ids[-size:]) == sequence[:size] for size in range(1, len(sequence)))
    ]
    found = (*(stop for _, stop in sorted(begun)), *sequences)
    # What no string begins with waits for a pattern.
    patterns = () if any(start == 0 for start, _ in begun) else conditions.stop_regex
    return found + patterns


def _begins(stop: str, jailed: str) -> int | None:
    """Where in ``jailed`` its end begins ``stop``; None if it does not."""
    for start in range(max(len(jailed) - len(stop) + 1, 0), len(jailed)):
        if stop.startswith(jailed[start:]):
            return start
    return None
