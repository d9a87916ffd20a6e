"""The comparison of ``streamdec verify``: every way to stream a row.

The texts of all ways are compared.

In: a tokenizer, ids, and a random number generator. Out: the first difference, or None. The oracle
is the tokenizer's own ``decode``. With ``byte_fallback="eager"`` that text is different by design
where a run of byte tokens is not UTF-8. There all ways must agree with each other (guarantees 0 and
6 of ``docs/explanation/laws.md``).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os.path import commonprefix
from typing import Any, NamedTuple

from streamdec.bench.entrants import first_stop
from streamdec.chunks import Chunk
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import check_token_id
from streamdec.fastpath.comparison import smallest
from streamdec.protocols import ByteFallback, Tokenizer

REPLACEMENT = "\ufffd"
LONGEST_STOP = 12
MOST_RESTORED = 3
"""The most times that a stream is restored from a snapshot."""
BATCHES = (2, 8, 64, 512)
"""Largest sizes of the random batches; each stream uses one of them."""
SHOWN = 40
"""Characters of each text that are shown around a difference."""
WAYS = 5
"""The number of ways in which a row is streamed under each set of options."""

Stream = DecodeStream | StopSequenceDecoder
Options = Mapping[str, Any]


class _Way(NamedTuple):
    """A way to stream a row."""

    how: str
    make: Callable[[], Stream]
    prompt: int = 0
    """The number of ids that are the prompt."""
    stop: str | None = None


@dataclass(frozen=True)
class Difference:
    """A difference between the text of a stream and the full decode."""

    how: str
    """The way the ids were streamed, in words."""
    options: Options
    """The stream's options, by name."""
    prompt: int
    """The number of ids that were the prompt."""
    stop: str | None
    """The stop string of the stream."""
    position: int | None = None
    """The index of the first character that differs; None if the stream raised."""
    given: str = ""
    """The streamed text around it."""
    expected: str = ""
    """The expected text around it."""
    error: str = ""
    """The exception that was raised."""


class Streaming:
    """Streams the rows of one tokenizer in every way."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        rule = tokenizer.rules.rule if tokenizer.rules is not None else None
        policies = ("exact", "eager") if isinstance(rule, ByteFallback) else ("eager",)
        self.options = [
            {"skip_special_tokens": skip, "byte_fallback": policy}
            for policy in policies
            for skip in (True, False)
        ]
        """The sets of options under which each row is streamed."""
        self.unjudged = 0
        """Rows whose bytes are not all UTF-8: the oracle does not apply to their eager text."""

    def difference(self, token_ids: Sequence[Any], chance: random.Random) -> Difference | None:
        """Return the first difference in a row, or None.

        Raises :class:`TokenIdError` for a value that is not a token id, and
        :class:`TokenizerLibraryError` if the tokenizer's own library cannot decode the row.
        """
        ids = [check_token_id(token_id, place) for place, token_id in enumerate(token_ids)]
        rows = [_Row(self._tokenizer, ids, options) for options in self.options]
        for row in rows:
            found = row.difference(chance)
            if found is not None:
                return found
        self.unjudged += any(row.is_unjudged for row in rows)
        return None

    def smallest(
        self, token_ids: Sequence[int], found: Difference, seed: str
    ) -> tuple[list[int], Difference]:
        """Return the smallest part found that still differs, and the difference in it."""

        def tried(part: Sequence[int]) -> Difference | None:
            row = _Row(self._tokenizer, list(part), found.options)
            return row.difference(random.Random(seed))

        ids = list(token_ids)
        start, size = smallest(ids, lambda part: tried(part) is not None)
        part = ids[start : start + size]
        again = tried(part)
        return (ids, found) if again is None else (part, again)


class _Row:
    """One row under one set of options."""

    def __init__(self, tokenizer: Tokenizer, ids: list[int], options: Options) -> None:
        self._tokenizer = tokenizer
        self._ids = ids
        self._options = options
        self._new_stream = partial(DecodeStream, tokenizer, **options)
        self._new_decoder = partial(StopSequenceDecoder, tokenizer, **options)
        self._texts: list[str] = []
        """The text that each step emits, and then the text of flush."""
        self._expected = ""
        self.is_unjudged = False

    def difference(self, chance: random.Random) -> Difference | None:
        """Return the first difference among all ways, or None."""
        one_by_one = _Way("DecodeStream, one by one", self._new_stream)
        try:
            stream = self._new_stream()
            self._texts = [*map(stream.step, self._ids), stream.flush()]
        except Exception as error:  # noqa: BLE001 (any exception is a difference)
            return self._raised(one_by_one, error)
        given = "".join(self._texts)
        self._expected = self._whole(given)
        if given != self._expected:
            return self._differs(one_by_one, given, self._expected)
        return next(filter(None, (self._compared(way, chance) for way in self._ways(chance))), None)

    def _whole(self, given: str) -> str:
        """Return the expected text."""
        if not self._ids:  # some decoders panic
            return ""
        skip = self._options["skip_special_tokens"]
        whole = self._tokenizer.decode(self._ids, skip_special_tokens=skip)
        rules = self._tokenizer.rules
        if rules is None or not isinstance(rules.rule, ByteFallback):
            return whole
        if self._options["byte_fallback"] == "exact" or REPLACEMENT not in given:
            return whole
        # Of a run that is not UTF-8, eager text has one U+FFFD for each bad byte; decode has only
        # U+FFFD.
        self.is_unjudged = whole != given
        return given

    def _ways(self, chance: random.Random) -> Iterator[_Way]:
        yield _Way("DecodeStream in random batches", self._new_stream)
        size = self._outside_a_run(chance.randint(0, len(self._ids)))
        prompt = self._ids[:size]
        yield _Way("DecodeStream after a prompt", partial(self._new_stream, prompt), size)
        without = partial(self._new_decoder, StopConditions())
        yield _Way("StopSequenceDecoder in random batches", without)
        if chance.random() < 0.5:
            prompt, size = [], 0
        stop = self._stop_in(self._expected[len("".join(self._texts[:size])) :], chance)
        # A stop string that is the text of a special token also stops at its id.
        if stop not in self._tokenizer.special_tokens.all:
            how = "StopSequenceDecoder with a stop" + (" after a prompt" if size else "")
            make = partial(self._new_decoder, StopConditions(stop), prompt)
            yield _Way(how, make, size, stop)

    def _stop_in(self, text: str, chance: random.Random) -> str:
        """Return a stop that is in ``text``, or of which a prefix is in ``text``."""
        start = chance.randint(0, max(len(text) - 1, 0))
        stop = text[start : start + chance.randint(1, LONGEST_STOP)] or "\n"
        return stop + "\x00" if chance.random() < 0.25 else stop

    def _outside_a_run(self, size: int) -> int:
        """Return the largest index up to ``size`` outside a held run of byte tokens.

        The complete characters of a run that a prompt ends in belong to the prompt (guarantee 4).
        So the text of the rest cannot be compared there.
        """
        if self._options["byte_fallback"] != "exact":
            return size
        stream, place = self._new_stream(), 0
        for index, token_id in enumerate(self._ids[:size], 1):
            stream.step(token_id)
            place = place if stream.held else index
        return place

    def _compared(self, way: _Way, chance: random.Random) -> Difference | None:
        before = "".join(self._texts[: way.prompt])
        expected = self._expected
        if way.stop is not None:
            end = first_stop(expected[len(before) :], [way.stop])
            expected = expected if end is None else expected[: len(before) + end]
        try:
            given = before + self._streamed(way, chance)
        except Exception as error:  # noqa: BLE001
            return self._raised(way, error)
        return None if given == expected else self._differs(way, given, expected)

    def _streamed(self, way: _Way, chance: random.Random) -> str:
        """Return the text, streamed in batches.

        Between some batches, the stream is restored from JSON.
        """
        stream = way.make()
        batches = list(_batches(self._ids[way.prompt :], chance))
        moves = {chance.randrange(len(batches)) for _ in range(MOST_RESTORED)} if batches else set()
        texts = []
        for place, batch in enumerate(batches):
            if place in moves:
                snapshot = json.loads(json.dumps(stream.snapshot()))
                stream = type(stream).restore(self._tokenizer, snapshot)
            texts.append(_text(stream.feed(batch)))
            if stream.finished:
                return "".join(texts)
        return "".join([*texts, _text(stream.flush())])

    def _differs(self, way: _Way, given: str, expected: str) -> Difference:
        at = len(commonprefix([given, expected]))  # noqa: RUF071 (not paths)
        shown = slice(max(at - SHOWN // 2, 0), at + SHOWN // 2)
        place = (way.how, self._options, way.prompt, way.stop)
        return Difference(*place, at, given[shown], expected[shown])

    def _raised(self, way: _Way, error: Exception) -> Difference:
        told = f"{type(error).__name__}: {error}"
        return Difference(way.how, self._options, way.prompt, way.stop, error=told)


def _text(given: str | Chunk) -> str:
    return given if isinstance(given, str) else given.text


def _batches(ids: Sequence[int], chance: random.Random) -> Iterator[Sequence[int]]:
    most, start = chance.choice(BATCHES), 0
    while start < len(ids):
        size = chance.randint(1, most)
        yield ids[start : start + size]
        start += size
