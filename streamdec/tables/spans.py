r"""Where each token is in the text: spans (guarantee 17 of the docs).

**Theory.** Tokens own bytes, spans count code points, and a code point may have bytes of several
tokens. So each token goes through three stages. It is *waiting* while the tokenizer's rule
withholds a part of it (an open run of byte tokens); it is *open* once all its bytes have a place in
the stream of bytes; and it is *settled* once all of these bytes have become code points. A token
covers every code point that it gave a byte to; a token that gave nothing has an empty span before
the character that it interrupts. Tokens settle in order, so a recorder holds only the few
that are not settled, and the settled ones that were not taken yet.

**A worked example.** The first token leaves the first byte of "é" behind, and the third one
completes it; the second token is special, gives nothing, and stands between:

>>> from streamdec import DecodeStream, MockTokenizer
>>> tokens = [b"caf\xc3", b"<s>", b"\xa9!"]
>>> stream = DecodeStream(MockTokenizer.from_tokens(tokens, special_ids=[1]), spans=True)
>>> stream.step_batch([0, 1])                            # no span is settled: "é" is unfinished
['caf', '']
>>> stream.take_spans()
[]
>>> stream.step(2)
'é!'
>>> [(span.start, span.end) for span in stream.take_spans()]
[(0, 4), (3, 3), (3, 5)]
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from streamdec.chunks import TokenSpan
from streamdec.tables import utf8
from streamdec.tables.byte_table import ByteTable
from streamdec.tables.counting import MOST_COUNTED, text_in
from streamdec.tables.provenance import State
from streamdec.tables.table import Table


class _Span:
    """A token on its way: its bytes in the stream, then its place in the text."""

    __slots__ = ("bounds", "first", "index", "last", "waits")

    def __init__(self, index: int, first: int, last: int) -> None:
        self.index = index
        self.first = first
        """First byte of the stream that is the token's."""
        self.last = last
        """One past the last."""
        self.waits = False
        """Whether the decoder still has bytes of it."""
        self.bounds: list[int] = [-1, -1, -1, -1]
        """start, end, byte_start, byte_end; -1 where not yet known."""

    @property
    def is_settled(self) -> bool:
        return -1 not in self.bounds


class SpanRecorder:
    """Record the spans of one stream.

    The recorder has the tokens without a final span, and the spans not yet taken.
    """

    __slots__ = (
        "_chars",
        "_decided",
        "_errors",
        "_idle",
        "_index",
        "_open",
        "_settled",
        "_size",
        "_tail",
        "_taken",
        "_waiting",
    )

    def __init__(self, errors: str, tail: bytes = b"", *, prompt_tokens: int = 0) -> None:
        """Start a recorder, possibly after a prompt.

        ``tail``: the prompt's unfinished character. ``prompt_tokens``: how many tokens of the
        prompt wait.
        """
        self._errors = errors
        self._tail = tail  # bytes of an unfinished character (at first: the prompt's)
        self._decided = -len(tail)  # bytes of the stream that have become code points
        self._chars = 0  # code points of the text
        self._size = 0  # its bytes
        self._index = 0  # of the next token
        # Tokens that the decoder holds bytes of. For tokens of a prompt no spans are returned.
        self._waiting = deque(_Span(-1, 0, 0) for _ in range(prompt_tokens))
        # Tokens that gave nothing while others waited: they stand between those.
        self._idle: deque[_Span] = deque()
        self._open: deque[_Span] = deque()  # tokens in order, unsettled ones and those behind them
        self._settled: list[TokenSpan] = []
        self._taken = 0  # how many spans were taken: those of the first tokens

    def token(self, data: bytes, own: int, *, contributes: bool, waiting: int) -> None:
        """Record one token, which output ``data``.

        The last ``own`` bytes of ``data`` are the token's own. ``waiting``: how many of the last
        contributing tokens have bytes that were not output.
        """
        is_alone = own == len(data) and not (waiting or self._waiting or self._open or self._tail)
        if is_alone and self._settle_whole(data):
            return
        position = self._share_out(len(data) - own)
        span = _Span(self._index, position, position + own)
        self._index += 1
        self._open.append(span)
        if contributes:
            self._wait(span, waiting)
        elif self._waiting:
            span.waits = True
            self._idle.append(span)
        self._read(data, final=False)
        self._settle()

    def _settle_whole(self, data: bytes) -> bool:
        """Settle a token that gave ``data``, if these bytes are whole characters.

        Most tokens give whole characters. All tokens before it are settled.
        """
        try:
            length = len(data.decode())
        except UnicodeDecodeError:
            return False
        chars, size = self._chars + length, self._size + len(data)
        if self._index >= self._taken:
            self._settled.append(TokenSpan(self._index, self._chars, chars, self._size, size))
        self._chars, self._size = chars, size
        self._decided += len(data)
        self._index += 1
        return True

    def release(self, data: bytes, *, waiting: int = 0) -> None:
        """Record the output of all held bytes; ``data`` are the last of them.

        ``waiting``: how many tokens still wait.
        """
        self._share_out(len(data))
        self._release(waiting)
        self._read(data, final=True)
        self._settle()

    def _wait(self, span: _Span, waiting: int) -> None:
        """Add ``span`` to the waiting tokens, and keep only the last ``waiting`` of them."""
        if waiting:
            span.waits = True
            self._waiting.append(span)
        self._release(waiting)

    def _release(self, waiting: int) -> None:
        while len(self._waiting) > waiting:
            self._waiting.popleft().waits = False
        if not self._waiting:
            self._seat_idle(self._index, self._decided + len(self._tail))

    @property
    def tail(self) -> bytes:
        """The bytes of an unfinished character."""
        return self._tail

    @property
    def text_size(self) -> tuple[int, int]:
        """How many code points and bytes the text has."""
        return self._chars, self._size

    def take(self, output: int) -> list[TokenSpan]:
        """Return the spans settled since the last call, of text that was output."""
        size = 0
        while size < len(self._settled) and self._settled[size].end <= output:
            size += 1
        taken, self._settled = self._settled[:size], self._settled[size:]
        self._taken += size
        return taken

    def cut(self, code_points: int, size: int) -> None:
        """Cut the spans that were not taken after these code points and bytes."""
        self._settled = [
            TokenSpan(
                span.token_index,
                min(span.start, code_points),
                min(span.end, code_points),
                min(span.byte_start, size),
                min(span.byte_end, size),
            )
            for span in self._settled
        ]

    def _share_out(self, carried: int) -> int:
        """Give ``carried`` bytes to the waiting tokens in equal parts; return their end."""
        position = self._decided + len(self._tail)
        if self._waiting and carried:
            part = -(-carried // len(self._waiting))
            # The first ones may have fewer: bytes are only ever removed at the front.
            left = part * len(self._waiting) - carried
            for span in self._waiting:
                self._seat_idle(span.index, position)
                if span.first == span.last:
                    span.first = span.last = position
                own = part - min(part, left)
                left -= part - own
                if own:  # a place known so far was of fewer bytes
                    span.bounds[1] = span.bounds[3] = -1
                span.last += own
                position += own
            self._seat_idle(self._index, position)
        return position

    def _seat_idle(self, index: int, position: int) -> None:
        """Tokens before ``index`` that gave nothing stand where the ones before them end."""
        while self._idle and self._idle[0].index < index:
            span = self._idle.popleft()
            span.first = span.last = position
            span.waits = False

    def _read(self, data: bytes, *, final: bool) -> None:
        self._tail += data
        for width, char in utf8.code_points(self._tail, self._errors, final=final):
            self._place(self._decided, self._decided + width, len(char.encode()))
            self._decided += width
            self._chars += 1
            self._size += len(char.encode())
            self._tail = self._tail[width:]
            self._settle()

    def _place(self, first: int, last: int, size: int) -> None:
        """Place the code point made of the bytes ``first`` to ``last``.

        ``size``: the bytes that its UTF-8 has.
        """
        for span in self._open:
            if span.first >= last:
                break  # they are in order
            if first <= span.first < last:
                span.bounds[0], span.bounds[2] = self._chars, self._size
                if span.first == span.last:
                    span.bounds[1], span.bounds[3] = self._chars, self._size
            if span.first < span.last and first < span.last <= last:
                span.bounds[1], span.bounds[3] = self._chars + 1, self._size + size

    def _settle(self) -> None:
        while self._open and not self._open[0].waits:
            span = self._open[0]
            if span.first == span.last == self._decided:  # between two characters, or at the end
                span.bounds = [self._chars, self._chars, self._size, self._size]
            if not span.is_settled:
                break
            if span.index >= self._taken:
                self._settled.append(TokenSpan(span.index, *span.bounds))
            self._open.popleft()

    # --- JSON

    def dump(self) -> dict[str, Any]:
        """The recorder as JSON."""
        taken = self._taken if self._taken > self._index - len(self._open) else None
        return {
            "at": [self._decided, self._chars, self._size, self._index],
            "tail": self._tail.hex(),
            "open": [[span.index, span.first, span.last, *span.bounds] for span in self._open],
            "waiting": [span.index for span in self._waiting],
            **({"idle": [span.index for span in self._idle]} if self._idle else {}),
            "settled": [list(span) for span in self._settled],
            **({} if taken is None else {"taken": taken}),
        }

    @classmethod
    def load(cls, errors: str, data: Any, num_tokens: int) -> SpanRecorder:
        """The recorder of a stream of ``num_tokens`` that ``dump`` gave ``data`` for.

        ValueError, TypeError or KeyError if there is none.
        """
        recorder = cls(errors)
        recorder._decided, recorder._chars, recorder._size, recorder._index = _ints(data["at"], 4)
        recorder._tail = bytes.fromhex(data["tail"])
        recorder._settled = [TokenSpan(*_ints(row, 5)) for row in data["settled"]]
        for row in data["open"]:
            index, first, last, *bounds = _ints(row, 7)
            span = _Span(index, first, last)
            span.bounds = bounds
            recorder._open.append(span)
        spans = {span.index: span for span in recorder._open}
        for index in data["waiting"]:
            span = spans[index] if index >= 0 else _Span(-1, 0, 0)
            span.waits = True
            recorder._waiting.append(span)
        for index in data.get("idle", []):
            spans[index].waits = True
            recorder._idle.append(spans[index])
        first = num_tokens - len(recorder._open) - len(recorder._settled)
        (recorder._taken,) = _ints([data.get("taken", first)], 1)
        recorder._check(num_tokens)
        if len(data) != len(recorder.dump()) or utf8.decode(recorder._tail, errors)[0]:
            raise ValueError("spans has unexpected fields, or more than an unfinished character")
        return recorder

    def _widest(self, span: _Span) -> TokenSpan:
        """The place of an unsettled ``span``, with the widest bounds that it can get."""
        widest = (0, self._chars, 0, self._size)
        bounds = zip(span.bounds, widest, strict=True)
        return TokenSpan(span.index, *(limit if bound == -1 else bound for bound, limit in bounds))

    def _check(self, num_tokens: int) -> None:
        """Raise ValueError for a recorder that no stream of ``num_tokens`` can have."""
        indexes = [each.token_index for each in self._settled] + [each.index for each in self._open]
        expected = list(range(num_tokens - len(indexes), num_tokens))
        spans = *self._settled, *map(self._widest, self._open)
        in_text = all(
            0 <= start <= end <= self._chars and start <= byte_start <= byte_end <= self._size
            for _, start, end, byte_start, byte_end in spans
        )
        fits = self._taken == num_tokens - len(indexes) or not self._settled
        if self._index != num_tokens or indexes != expected or not (in_text and fits):
            raise ValueError("the spans do not fit a stream of this length")


def _ints(row: Any, length: int) -> list[int]:
    if not (isinstance(row, list) and len(row) == length and all(type(n) is int for n in row)):
        raise ValueError(f"expected {length} integers, got {row!r:.80}")
    if not all(-4 < number < MOST_COUNTED for number in row):  # three bytes may be the prompt's
        raise ValueError(f"expected {length} integers in the range of a stream, got {row!r:.80}")
    return row


class Recorder:
    """Records the span of each token of one stream.

    Args:
        table: the stream's.
        primed: its state after the prompt.

    Raises ValueError for text whose bytes cannot be told apart by token.
    """

    __slots__ = ("_primed", "_spans", "_table")

    def __init__(self, table: Table, primed: State) -> None:
        if not table.has_spans:
            raise ValueError(
                "spans=True needs text whose bytes can be told apart by token: the bytes route, "
                "without clean-up or replacements of the finished text"
            )
        self._table = cast(ByteTable, table)
        self._primed = primed
        self.reset()

    def reset(self) -> None:
        """Drop what was recorded."""
        rule, primed = self._table.rule, self._primed
        waiting = rule.waiting(primed[0])
        self._spans = SpanRecorder(rule.errors, primed[1], prompt_tokens=waiting)

    def token(self, state: State, token_id: int) -> None:
        """Record ``token_id``, stepped in ``state``."""
        data, own, contributes, waiting = self._table.contribution(state, token_id)
        self._spans.token(data, own, contributes=contributes, waiting=waiting)

    def without_text(self) -> None:
        """Record the span of a token whose text is not output."""
        self._spans.token(b"", 0, contributes=False, waiting=0)

    def take(self, output: int) -> list[TokenSpan]:
        """Return the spans settled since the last call, of text that was output."""
        return self._spans.take(output)

    def finish(self, state: State) -> None:
        """The text ends in ``state``."""
        self._spans.release(self._table.rule.flush(state[0]))

    def release(self, state: State) -> None:
        """What is held in ``state`` is output, and the stream continues."""
        rule = self._table.rule
        data, after = rule.release(state[0])
        self._spans.release(data, waiting=rule.waiting(after))

    def cut(self, code_points: int, size: int) -> None:
        """The output ends after these numbers of code points and bytes."""
        self._spans.cut(code_points, size)

    def fits(self, state: State, count: int) -> bool:
        """Whether a stream with these records can be in ``state`` with this ``count``."""
        return self._spans.tail == state[1] and self._spans.text_size == text_in(count)

    # --- copies

    def fork(self, num_tokens: int) -> Recorder:
        """Return an independent copy, of a stream of ``num_tokens``."""
        return self.load(self._table, self._primed, self.dump(), num_tokens)

    def dump(self) -> dict[str, Any]:
        """Return the records as JSON."""
        return self._spans.dump()

    @classmethod
    def load(cls, table: Table, primed: State, data: Any, num_tokens: int) -> Recorder:
        """Return the recorder that ``dump`` gave ``data`` for.

        ``num_tokens``: how many tokens the stream had. Raises ValueError, TypeError or KeyError if
        there is none.
        """
        recorder = cls(table, primed)
        recorder._spans = SpanRecorder.load(recorder._table.rule.errors, data, num_tokens)
        return recorder
