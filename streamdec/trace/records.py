"""A trace as data: a header, a record for each token, the end, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from streamdec.chunks import FinishReason, StopReason

FORMAT = 1
"""The version of the JSON lines, in the header's ``streamdec_trace``."""

MachineName = Literal["decode_stream", "stop"]
Kind = Literal["text", "special", "skipped", "unknown"]  # skipped: a special token without text
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
    """The tokenizer's name, which may be a path; "" without a name."""
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
    """The versions of streamdec, Python and ``tokenizers``, by name."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    r"""One token, and the state of the decoder after it.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> from streamdec.trace import Tracer
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs"])
    >>> tracer = Tracer(StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:")))
    >>> chunk = tracer.feed([0, 1])
    >>> record = tracer.trace().tokens[1]
    >>> record.data, record.text, record.jailed, record.may_become
    (b'\nUs', '', '\nUs', ('\nUser:',))
    """

    index: int
    """Its index among the generated tokens, from 0."""
    token_id: int
    """The id that was given."""
    piece: str | None
    """Its name in the vocabulary; None for an unknown id."""
    data: bytes | None
    """Its bytes in the middle of a text; None if they are unknown."""
    kind: Kind
    """``"text"``, ``"special"`` (shown), ``"skipped"`` (left out), ``"unknown"`` (no token)."""
    position: int
    """The number of code points before its text: output, jailed, or a marker."""
    text: str
    """The text that was output with it."""
    held: bytes
    """The bytes of an unfinished character after it."""
    jailed: str
    """The text that is not output after it because it may become a stop or a section's marker."""
    may_become: tuple[str, ...]
    """The stop strings and patterns that ``jailed`` may become, by where they would begin."""
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
    """The index of the token whose text has the first difference; None if the flush has it, or if
    there is no difference."""
    position: int | None = None
    """The index of the first different code point in the stream's text, from 0."""
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
    """The record of one stream: its decoder, tokens, end and verdict. Immutable.

    Takes about 300 bytes for each token.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.trace import Tracer
    >>> tracer = Tracer(DecodeStream(MockTokenizer()))
    >>> texts = tracer.step_batch([1, 2])
    >>> trace = tracer.trace()
    >>> trace.text, len(trace.tokens)
    ('Hello world', 2)
    """

    header: Header
    """The traced decoder and its options."""
    tokens: tuple[TokenRecord, ...] = ()
    """A record for each token that was examined."""
    end: End | None = None
    """The flush; None if there was none."""
    error: str | None = None
    """The last error, as text, or None: an exception that a call raised, or ``the record is
    incomplete: ...`` if recording failed. The stream may have continued after it."""
    verdict: Verdict = field(default_factory=lambda: Verdict(None, reason="the stream continues"))
    """Whether the text is right, by the tokenizer's own decode."""

    @property
    def text(self) -> str:
        """The whole output, including the flush. It is joined on each access."""
        return "".join(token.text for token in self.tokens) + (self.end.text if self.end else "")

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended; None if it did not."""
        last = self.end or (self.tokens[-1] if self.tokens else None)
        return last.finish_reason if last else None

    # --- JSON lines

    def lines(self) -> Iterator[str]:
        """Yield the trace as lines of JSON, without line feeds.

        First the header with the version of the format, then one line for each token, then a line
        with ``end``, ``error`` and ``verdict``. Only ASCII. Usual values of a token are left out.
        """
        yield _line({"streamdec_trace": FORMAT, **asdict(self.header)})
        for token in self.tokens:
            yield _line(_token_to_json(token))
        end = None if self.end is None else asdict(self.end)
        yield _line({"end": end, "error": self.error, "verdict": asdict(self.verdict)})


# --- to JSON -----------------------------------------------------------------------------


def _line(row: Mapping[str, Any]) -> str:
    # Escaped: a lone surrogate in a name would be no UTF-8.
    return json.dumps(row, separators=(",", ":"))


def _token_to_json(token: TokenRecord) -> dict[str, Any]:
    """Return the fields of ``token`` that differ from ``_USUAL``."""
    row = asdict(token)
    row["data"] = None if token.data is None else token.data.hex()
    row["held"] = token.held.hex()
    return {name: value for name, value in row.items() if (name, value) not in _USUAL.items()}


_USUAL: Mapping[str, Any] = {
    **dict.fromkeys(("piece", "data", "finish_reason", "stop_reason")),
    **dict.fromkeys(("text", "held", "jailed"), ""),
    "may_become": (),
    "kind": "text",
}
"""The values that are left out of a token's JSON line."""
