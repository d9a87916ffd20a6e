"""A trace as data: a header, a record for each token, the end, and the verdict.

In: what a :class:`~streamdec.trace.tracer.Tracer` saw, or JSON lines of an earlier trace. Out:
plain frozen values, and JSON lines: the header, a line for each token, the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from streamdec.chunks import FinishReason, StopReason
from streamdec.errors import TraceError
from streamdec.trace.redaction import redacted_bytes, redacted_text

__all__ = ["End", "Header", "Kind", "MachineName", "TokenRecord", "Trace", "Verdict"]

FORMAT = 1
"""The version of the JSON lines, in the header's ``streamdec_trace``."""

MachineName = Literal["decode_stream", "sequence", "stop"]

Kind = Literal["text", "special", "skipped", "unknown"]
"""``skipped``: a special token whose text is left out; ``special``: one whose text is shown."""


@dataclass(frozen=True, slots=True)
class Header:
    """What was traced, and how it was set."""

    machine: MachineName
    """A DecodeStream, a Sequence, or a StopSequenceDecoder."""
    tokenizer: str
    """Its name, which may be a path; "" if it has none, or if redacted."""
    tokenizer_class: str
    fingerprint: str | None
    """Of how the tokenizer decodes; None if it does not tell."""
    route: str
    """``"bytes"`` or ``"window"``."""
    options: Mapping[str, Any]
    """Those of the decoder, by name."""
    conditions: Mapping[str, Any] | None
    """The stop conditions as JSON; None without."""
    after_prompt: bool
    """Whether tokens came before the trace, so that the decoding may depend on them."""
    snapshot: Mapping[str, Any] | None
    """The decoder before the first token: what a replay begins with. None if redacted."""
    versions: Mapping[str, str]
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One token, and how things stood after it."""

    index: int
    """Its place among the generated tokens, from 0."""
    token_id: int | None
    """None if redacted."""
    piece: str | None
    """The token's own name in the vocabulary; None if there is none."""
    data: bytes | None
    """The bytes it gives to the middle of a text; None if that is not known."""
    kind: Kind
    position: int
    """Where its text begins: the code points that were decided before it, given out or withheld."""
    text: str
    """What it brought out."""
    held: bytes
    """Bytes of an unfinished character, after it."""
    jailed: str
    """Decided text that was withheld after it, because it may become a stop."""
    may_become: tuple[str, ...]
    """The stop strings and patterns that ``jailed`` may become."""
    chunk: int
    """Which chunk it came in, from 0: the call to the decoder, or the engine's output."""
    finish_reason: FinishReason | None = None
    stop_reason: StopReason = None


@dataclass(frozen=True, slots=True)
class End:
    """What came without a token: at a flush."""

    text: str
    finish_reason: FinishReason | None = None
    stop_reason: StopReason = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the text is that of the tokenizer's own decode of all ids."""

    equal: bool | None
    """None if there is nothing to compare with; ``reason`` says why."""
    token_index: int | None = None
    """The token whose text has the first difference."""
    position: int | None = None
    """The code point of the first difference."""
    reason: str = ""

    def __str__(self) -> str:
        if self.equal is None:
            return f"not compared: {self.reason}"
        if self.equal:
            return "equal to the whole decode: yes" + (f" ({self.reason})" if self.reason else "")
        where = "after the last token" if self.token_index is None else f"token {self.token_index}"
        return f"equal to the whole decode: no, first difference at {where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Trace:
    """All of it."""

    header: Header
    tokens: tuple[TokenRecord, ...] = ()
    end: End | None = None
    """The flush; None if there was none."""
    error: str | None = None
    """The exception that ended the trace, as text; None if there was none."""
    verdict: Verdict = field(default_factory=lambda: Verdict(None, reason="the stream goes on"))

    @property
    def text(self) -> str:
        """All that came out."""
        return "".join(token.text for token in self.tokens) + (self.end.text if self.end else "")

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended; None if it did not."""
        last = self.end or (self.tokens[-1] if self.tokens else None)
        return last.finish_reason if last else None

    # --- JSON lines

    def lines(self) -> Iterator[str]:
        """The trace as JSON, an object a line, without newlines at their ends."""
        yield _line({"streamdec_trace": FORMAT, **asdict(self.header)})
        for token in self.tokens:
            yield _line(_token_to_json(token))
        end = None if self.end is None else asdict(self.end)
        yield _line({"end": end, "error": self.error, "verdict": asdict(self.verdict)})

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Self:
        """The trace that ``lines()`` gave. Raises :class:`TraceError`, which names the line."""
        header, last = None, None
        tokens: list[TokenRecord] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if last is not None:
                    raise ValueError("there is more after the end")
                if header is None:
                    header = _header(row)
                elif "index" in row:
                    tokens.append(_token_from_json(row, len(tokens)))
                else:
                    last = _end(row)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise TraceError(f"line {number}: no line of a trace: {error}") from error
        if header is None or last is None:
            raise TraceError("no trace: the first line must be its header, the last its end")
        return cls(header, tuple(tokens), *last)

    # --- without the words

    def redacted(self) -> Self:
        """The same shapes without the letters: to be shown to others.

        Letters become x and X, digits 0; other characters one of the same size in UTF-8; what is
        neither letter nor digit in ASCII stays. Ids, which are text to who has the tokenizer, the
        tokenizer's name, which may be a path, and the snapshot are dropped, so such a trace cannot
        be played again. The fingerprint stays: it says which tokenizer it was.
        """
        header = self.header
        return replace(
            self,
            header=replace(
                header,
                tokenizer="",
                conditions=None if header.conditions is None else _redacted(header.conditions),
                snapshot=None,
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
            verdict=replace(self.verdict, reason=_LEFT_OUT)
            if self.verdict.equal is False
            else self.verdict,
        )


# --- to and from JSON -----------------------------------------------------------------------------


def _line(row: Mapping[str, Any]) -> str:
    # Escaped: a lone surrogate in a name would be no UTF-8.
    return json.dumps(row, separators=(",", ":"))


def _token_to_json(token: TokenRecord) -> dict[str, Any]:
    """Only what is not as it mostly is."""
    row = {name: getattr(token, name) for name in _NAMES}
    row["data"] = None if token.data is None else token.data.hex()
    row["held"] = token.held.hex()
    return {name: value for name, value in row.items() if value != _USUAL.get(name, _NEVER)}


def _token_from_json(row: dict[str, Any], index: int) -> TokenRecord:
    if row["index"] != index:
        raise ValueError(f"token {row['index']!r:.20} where {index} is expected")
    if unknown := row.keys() - set(_NAMES):
        raise ValueError(f"unknown keys {sorted(unknown)!r:.80}")
    if row.get("kind", "text") not in get_args(Kind):
        raise ValueError(f"kind {row['kind']!r:.40}")
    for name, kinds in _KINDS.items():
        if not isinstance(row.get(name), kinds):
            raise TypeError(f"{name} is {row.get(name)!r:.40}")
    data = row.get("data")
    return TokenRecord(
        index=index,
        token_id=row.get("token_id"),
        piece=row.get("piece"),
        data=None if data is None else bytes.fromhex(data),
        kind=row.get("kind", "text"),
        position=row["position"],
        text=row.get("text", ""),
        held=bytes.fromhex(row.get("held", "")),
        jailed=row.get("jailed", ""),
        may_become=tuple(map(str, row.get("may_become", ()))),
        chunk=row["chunk"],
        finish_reason=row.get("finish_reason"),
        stop_reason=_reason(row.get("stop_reason")),
    )


_NAMES = tuple(each.name for each in fields(TokenRecord))
_NEVER = object()
_USUAL: Mapping[str, Any] = {
    **dict.fromkeys(("piece", "data", "finish_reason", "stop_reason")),
    **dict.fromkeys(("text", "held", "jailed"), ""),
    "may_become": (),
    "kind": "text",
}
"""What need not be said of a token."""
_OPTIONAL_TEXT = (str, type(None))
_KINDS: Mapping[str, tuple[type, ...]] = {
    "token_id": (int, type(None)),
    "chunk": (int,),
    "position": (int,),
    **dict.fromkeys(("piece", "text", "data", "held", "jailed", "finish_reason"), _OPTIONAL_TEXT),
    "may_become": (list, type(None)),
}


def _header(row: dict[str, Any]) -> Header:
    version = row.pop("streamdec_trace")
    if version != FORMAT:
        raise ValueError(f"a trace of version {version!r:.20}, and {FORMAT} is read here")
    if row["machine"] not in get_args(MachineName):
        raise ValueError(f"machine {row['machine']!r:.40}")
    return Header(**row)


def _end(row: dict[str, Any]) -> tuple[End | None, str | None, Verdict]:
    found = row["end"]
    end = None if found is None else End(**found | {"stop_reason": _reason(found["stop_reason"])})
    return end, row["error"], Verdict(**row["verdict"])


def _reason(value: Any) -> StopReason:
    return tuple(value) if isinstance(value, list) else value


# --- redaction ------------------------------------------------------------------------------------

_IDS = ("armed_after", "armed_until")
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
        may_become=tuple(map(redacted_text, token.may_become)),
        stop_reason=_redacted_reason(token.stop_reason),
    )


def _redacted_reason(reason: StopReason) -> StopReason:
    if isinstance(reason, str):
        return redacted_text(reason)
    return None if reason is None else ()


def _redacted(value: Any) -> Any:
    """JSON with its strings redacted and its lists of numbers emptied; keys stay."""
    if isinstance(value, Mapping):
        return {key: _redacted([each] if key in _IDS else each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(each) for each in value if not isinstance(each, int)]
    return redacted_text(value) if isinstance(value, str) else value
