"""A trace as data: a header, a record for each token, the end, and the verdict.

In: the events of a :class:`~streamdec.trace.Tracer`. Out: plain frozen values, and JSON lines: the
header, a line for each token, the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from streamdec.chunks import FinishReason, StopReason
from streamdec.trace.redaction import redacted_bytes, redacted_text

__all__ = [
    "End",
    "Header",
    "Kind",
    "MachineName",
    "PossibleStop",
    "TokenRecord",
    "Trace",
    "Verdict",
]

FORMAT = 1
"""The version of the JSON lines, in the header's ``streamdec_trace``."""

MachineName = Literal["decode_stream", "stop"]
"""The traced decoder: a DecodeStream or a StopSequenceDecoder."""

Kind = Literal["text", "special", "skipped", "unknown"]
"""``skipped``: a special token whose text is left out; ``special``: one whose text is shown."""

PossibleStop = str | tuple[int, ...]
"""A stop string, the source of a pattern, or the ids of a sequence."""


_Plain = bool | int | str | None
Condition = _Plain | tuple[_Plain | tuple[_Plain, ...], ...]
"""One of the stop conditions, as JSON."""


@dataclass(frozen=True, slots=True)
class Header:
    """The traced decoder and its options.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.trace import Tracer
    >>> header = Tracer(DecodeStream(MockTokenizer())).trace().header
    >>> header.machine, header.route, header.tokenizer_class, header.after_prompt
    ('decode_stream', 'bytes', 'MockTokenizer', False)
    """

    machine: MachineName
    """The traced decoder: a DecodeStream or a StopSequenceDecoder."""
    tokenizer: str
    """The tokenizer's name, which may be a path; "" without a name, or if redacted."""
    tokenizer_class: str
    """The name of its class, without the module."""
    fingerprint: str | None
    """The fingerprint of the tokenizer's decoding; None if it has none."""
    route: str
    """``"bytes"`` or ``"window"``."""
    options: Mapping[str, bool | str]
    """The options of the decoder, by name."""
    conditions: Mapping[str, Condition] | None
    """The stop conditions as JSON; None without them."""
    after_prompt: bool
    """Whether tokens precede the trace, on which the decoding may depend."""
    versions: Mapping[str, str]
    """The versions of streamdec and ``tokenizers``, by name."""
    redacted: bool = False
    """Whether letters, ids and names were left out."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    r"""One token, and the state of the decoder after it.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> from streamdec.trace import Tracer
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs"])
    >>> tracer = Tracer(StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:")))
    >>> chunk = tracer.step_batch([0, 1])
    >>> record = tracer.trace().tokens[1]
    >>> record.data, record.text, record.jailed, record.may_become
    (b'\nUs', '', '\nUs', ('\nUser:',))
    """

    index: int
    """Its index among the generated tokens, from 0."""
    token_id: int | None
    """None if redacted."""
    piece: str | None
    """Its name in the vocabulary; None for an unknown id."""
    data: bytes | None
    """Its bytes in the middle of a text; None if they are unknown."""
    kind: Kind
    """``"text"``, ``"special"`` (shown), ``"skipped"`` (left out), ``"unknown"`` (no token)."""
    position: int
    """The number of code points before its text, output or withheld."""
    text: str
    """The text that was output with it."""
    held: bytes
    """The bytes of an unfinished character after it."""
    jailed: str
    """The text that is withheld after it because it may become a stop."""
    may_become: tuple[PossibleStop, ...]
    """The hidden stops that ``jailed`` may become, by the place where they would begin."""
    chunk: int
    """The index of the call to the decoder, from 0. A stream over an engine makes one call for each
    output of the engine; with ``return_token_ids`` it makes one for each id."""
    finish_reason: FinishReason | None = None
    """Why the stream ended with it; None if it continued."""
    stop_reason: StopReason = None
    """The stop that it completed, as in Chunk."""


@dataclass(frozen=True, slots=True)
class End:
    """The output of a flush, which has no token."""

    text: str
    """The text of the flush."""
    finish_reason: FinishReason | None = None
    """Why the stream ended; None for a DecodeStream."""
    stop_reason: StopReason = None
    """The stop that the text completed, as in Chunk."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the text equals the tokenizer's own decode of all ids.

    As text it is one line for people.

    >>> from streamdec.trace import Verdict
    >>> print(Verdict(equal=None, reason="the stream continues"))
    not compared: the stream continues
    """

    equal: bool | None
    """None if no comparison is possible; ``reason`` says why."""
    token_index: int | None = None
    """The token whose text has the first difference."""
    position: int | None = None
    """The code point of the first difference."""
    reason: str = ""
    """What differs, or why nothing was compared, for people."""

    def __str__(self) -> str:
        if self.equal is None:
            return f"not compared: {self.reason}"
        if self.equal:
            return "equal to the full decode: yes" + (f" ({self.reason})" if self.reason else "")
        where = "after the last" if self.token_index is None else f"at token {self.token_index}"
        return f"equal to the full decode: no, first difference {where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Trace:
    """All that happened in one stream; immutable.

    Some 300 bytes for each token.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.trace import Tracer
    >>> tracer = Tracer(DecodeStream(MockTokenizer()))
    >>> texts = tracer.step_batch([1, 2])
    >>> trace = tracer.trace()
    >>> trace.text, len(trace.tokens)
    ('Hello world', 2)
    """

    header: Header
    """What was traced."""
    tokens: tuple[TokenRecord, ...] = ()
    """A record for each token that was examined."""
    end: End | None = None
    """The flush; None if there was none."""
    error: str | None = None
    """The last exception that a call raised, as text; the stream may have continued after it."""
    verdict: Verdict = field(default_factory=lambda: Verdict(None, reason="the stream continues"))
    """Whether the text is right, by the tokenizer's own decode."""

    @property
    def text(self) -> str:
        """All that came out, joined each time."""
        return "".join(token.text for token in self.tokens) + (self.end.text if self.end else "")

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended; None if it did not."""
        last = self.end or (self.tokens[-1] if self.tokens else None)
        return last.finish_reason if last else None

    # --- JSON lines

    def lines(self) -> Iterator[str]:
        """The trace as JSON, an object a line, without newlines at their ends.

        ASCII alone: the header, which has the format's version, a line for each token, the end.
        """
        yield _line({"streamdec_trace": FORMAT, **_fields_of(self.header)})
        for token in self.tokens:
            yield _line(_token_to_json(token))
        end = None if self.end is None else _fields_of(self.end)
        yield _line({"end": end, "error": self.error, "verdict": _fields_of(self.verdict)})

    # --- without the words

    def redacted(self) -> Self:
        """The same shapes without the letters: to be shown to others.

        Letters become x and X, digits 0; other characters one of the same size in UTF-8; what is
        neither letter nor digit in ASCII stays. Ids, which are text to who has the tokenizer, and
        the tokenizer's name, which may be a path, are dropped. The fingerprint stays: it says which
        tokenizer it was.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> from streamdec.trace import Tracer
        >>> tracer = Tracer(DecodeStream(MockTokenizer()))
        >>> texts = tracer.step_batch([1, 2])
        >>> tracer.trace().redacted().text
        'Xxxxx xxxxx'
        """
        header = self.header
        return replace(
            self,
            header=replace(
                header,
                tokenizer="",
                conditions=None if header.conditions is None else _redacted(header.conditions),
                redacted=True,
            ),
            tokens=tuple(map(_redacted_token, self.tokens)),
            end=self.end
            and replace(
                self.end,
                text=redacted_text(self.end.text),
                stop_reason=_redacted_reason(self.end.stop_reason),
            ),
            error=self.error and self.error.partition(":")[0],
            verdict=replace(
                self.verdict,
                # What decode() raised may quote anything.
                reason=_LEFT_OUT
                if self.verdict.equal is False
                else self.verdict.reason.partition(":")[0],
            ),
        )


# --- to JSON -----------------------------------------------------------------------------


def _line(row: Mapping[str, Any]) -> str:
    # Escaped: a lone surrogate in a name would be no UTF-8.
    return json.dumps(row, separators=(",", ":"))


def _fields_of(value: Header | End | Verdict) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _token_to_json(token: TokenRecord) -> dict[str, Any]:
    """Only what is not as it mostly is."""
    row = {name: getattr(token, name) for name in _NAMES}
    row["data"] = None if token.data is None else token.data.hex()
    row["held"] = token.held.hex()
    return {name: value for name, value in row.items() if value != _USUAL.get(name, _NEVER)}


_NAMES = tuple(each.name for each in fields(TokenRecord))
_NEVER = object()
_USUAL: Mapping[str, Any] = {
    **dict.fromkeys(("piece", "data", "finish_reason", "stop_reason")),
    **dict.fromkeys(("text", "held", "jailed"), ""),
    "may_become": (),
    "kind": "text",
}
"""What need not be said of a token."""


# --- redaction ------------------------------------------------------------------------------------

_IDS = ("enable_stops_after", "disable_stops_after")
"""Conditions that may be one id."""
_LEFT_OUT = "both texts are left out"


def _redacted_token(token: TokenRecord) -> TokenRecord:
    return replace(
        token,
        token_id=None,
        piece=None,
        data=None if token.data is None else redacted_bytes(token.data),
        text=redacted_text(token.text),
        held=redacted_bytes(token.held),
        jailed=redacted_text(token.jailed),
        may_become=tuple(map(_redacted_stop, token.may_become)),
        stop_reason=_redacted_reason(token.stop_reason),
    )


def _redacted_stop(stop: PossibleStop) -> PossibleStop:
    return redacted_text(stop) if isinstance(stop, str) else ()


def _redacted_reason(reason: StopReason) -> StopReason:
    """Of ids that stopped it stays that they were ids."""
    if isinstance(reason, int):
        return ()
    return None if reason is None else _redacted_stop(reason)


def _redacted(value: Any) -> Any:
    """JSON with its strings redacted and its lists of numbers emptied; keys stay."""
    if isinstance(value, Mapping):
        return {key: _redacted([each] if key in _IDS else each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(each) for each in value if not isinstance(each, int)]
    return redacted_text(value) if isinstance(value, str) else value
