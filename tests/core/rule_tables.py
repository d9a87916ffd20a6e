"""A handful of pieces and the machine that follows their rule, for the tests of the machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from streamdec import MockTokenizer
from streamdec.core import utf8
from streamdec.core.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.core.rules.base import State, TokenRule
from streamdec.core.rules.compile import compile_rule
from streamdec.core.table import as_json, from_json
from streamdec.protocols import DecodingRule, TextRules

T = TypeVar("T")
Piece = str | bytes


class Table:
    """The machine for ``rule`` over a tokenizer that has only these pieces, with ids in order."""

    def __init__(
        self,
        rule: DecodingRule | TextRules,
        *pieces: Piece,
        special: Sequence[Piece] = (),
        skip: bool = True,
        byte_fallback: ByteFallbackMode = "exact",
        unknown_ids: UnknownIds = "skip",
    ) -> None:
        self.pieces = [*dict.fromkeys([*pieces, *special])]
        tokens = [piece.encode() if isinstance(piece, str) else piece for piece in self.pieces]
        skipped = [self.pieces.index(piece) for piece in special]
        self.tokenizer = MockTokenizer.from_tokens(tokens, skipped, rule)
        assert self.tokenizer.rules is not None
        options = Options(skip, byte_fallback, unknown_ids)
        self.skip = skip
        self.machine: TokenRule = compile_rule(self.tokenizer, self.tokenizer.rules, options)
        self.ids = [self.pieces.index(piece) for piece in pieces]

    def step(self, state: State, token_id: int) -> tuple[bytes, State]:
        """The bytes that a token outputs, and the state after it."""
        element = self.machine.elements[token_id]
        return (b"", state) if element is None else self.machine.advance(state, element)

    def steps(self) -> Iterator[tuple[bytes, State]]:
        """The text that each piece in turn completes, and the state after it."""
        state = self.machine.start
        for token_id in self.ids:
            data, state = self.step(state, token_id)
            yield data, state

    def outputs(self) -> list[bytes]:
        """The text that each piece in turn completes, and that of the end."""
        outputs, state = [], self.machine.start
        for data, after in self.steps():
            outputs.append(data)
            state = after
        return [*outputs, self.machine.flush(state)]

    def whole(self) -> str:
        """The library's own text of all of them."""
        return self.tokenizer.decode(self.ids, skip_special_tokens=self.skip)

    def check(self, *outputs: bytes) -> None:
        """Check that each piece completes the given text; joined, it is the library's text.

        Every state survives JSON. A prompt leads to the same state, without what it decides itself.
        """
        assert self.outputs() == [*outputs]
        joined = b"".join(outputs)
        text, rest = utf8.decode(joined, self.machine.errors)
        assert text + utf8.flush(rest, self.machine.errors) == self.whole()
        for count, (_, state) in enumerate(self.steps(), 1):
            assert through_json(self.machine, state) == state
            primed, _ = self.machine.prime(self.ids[:count])
            assert primed == self.machine.settle(state)[1]
        assert self.machine.prime(()) == (self.machine.start, b"")


def through_json(machine: TokenRule, state: State) -> State:
    found = from_json(json.loads(json.dumps(as_json(state))))
    assert machine.fits(found)
    return found


class Touched(list[T]):
    """A list that counts how many of its items were looked at."""

    touched = 0

    def _counted(self, items: Iterator[T]) -> Iterator[T]:
        for item in items:
            self.touched += 1
            yield item

    def __iter__(self) -> Iterator[T]:
        return self._counted(super().__iter__())

    def __reversed__(self) -> Iterator[T]:
        return self._counted(super().__reversed__())

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if not isinstance(place, slice):
            self.touched += 1
            return found
        part = _PartOf(found)
        part.whole = self
        return part


class _PartOf(Touched[T]):
    """A slice, whose items count for the whole."""

    whole: Touched[T]

    def _counted(self, items: Iterator[T]) -> Iterator[T]:
        for item in items:
            self.whole.touched += 1
            yield item
