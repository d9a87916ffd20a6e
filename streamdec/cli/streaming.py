"""The comparison of ``streamdec verify``: streams a row in every way and compares the texts.

In: a tokenizer, ids, and a random number generator. Out: the first difference, or None. The oracle
is the tokenizer's own ``decode``. With ``byte_fallback="eager"`` that text is different by design
where a run of byte tokens is not UTF-8. There all ways must agree with each other (laws 0 and 6 of
``docs/explanation/laws.md``).
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from os.path import commonprefix
from typing import Any

from streamdec.backends.comparison import smallest
from streamdec.bench.entrants import first_stop
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.core.token_ids import check_token_id
from streamdec.protocols import ByteFallback, Tokenizer

__all__ = ["Difference", "Streaming"]

REPLACEMENT = "\ufffd"
LONGEST_STOP = 12
MOST_RESTORED = 3
"""The most times that a stream is restored from a snapshot."""
BATCHES = (2, 8, 64, 512)
"""Largest sizes of the random batches; each stream uses one of them."""
SHOWN = 40
"""Characters of each text that are shown around a difference."""

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """A difference between the text of a stream and the full decode."""

    how: str
    """How the ids were streamed, in words."""
    options: Options
    """The stream's options, by name."""
    token_index: int | None
    """The index of the token whose step emits the first character that differs, or raises. None if
    the end of the stream emits it, or if the step is not known."""
    position: int | None
    """The index of that character; None if a step raised."""
    given: str = ""
    """The streamed text around it."""
    expected: str = ""
    """The expected text around it."""
    error: str = ""
    """The exception that was raised."""
    prompt: int = 0
    """How many of the ids were the prompt."""
    stop: str | None = None
    """The stop string of the stream."""


class Streaming:
    """Streams the rows of one tokenizer in every way."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        rule = tokenizer.rules.rule if tokenizer.rules is not None else None
        self._has_byte_runs = isinstance(rule, ByteFallback)
        policies = ("exact", "eager") if self._has_byte_runs else ("eager",)
        self._options = [
            {"skip_special_tokens": skip, "byte_fallback": policy}
            for policy in policies
            for skip in (True, False)
        ]
        # A stop string that is the text of a special token also stops at its id.
        self._named = frozenset(tokenizer.special_tokens.all)
        self.unjudged = 0
        """Rows whose bytes are not all UTF-8: the oracle does not apply to their eager text."""

    @property
    def ways(self) -> int:
        """The number of ways in which each row is streamed."""
        return len(self._options) * (1 + len(_WAYS))

    def difference(self, token_ids: Sequence[Any], chance: random.Random) -> Difference | None:
        """Return the first difference in a row, or None.

        Raises :class:`TokenIdError` for a value that is not a token id, and
        :class:`TokenizerLibraryError` if the tokenizer's own library cannot decode the row.
        """
        ids = [check_token_id(token_id, place) for place, token_id in enumerate(token_ids)]
        unjudged = False
        for options in self._options:
            row = _Row(self._tokenizer, ids, options, self._named)
            found = row.difference(chance)
            if found is not None:
                return found
            unjudged = unjudged or row.is_unjudged
        self.unjudged += unjudged
        return None

    def smallest(
        self, token_ids: Sequence[int], found: Difference, seed: str
    ) -> tuple[list[int], Difference]:
        """Return the smallest part found that still differs, and the difference in it."""

        def tried(part: Sequence[int]) -> Difference | None:
            row = _Row(self._tokenizer, list(part), found.options, self._named)
            return row.difference(random.Random(seed))

        ids, place = list(token_ids), found.token_index or 0
        start, size = smallest(ids, lambda part: tried(part) is not None, place)
        part = ids[start : start + size]
        again = tried(part)
        return (ids, found) if again is None else (part, again)


class _Row:
    """One row under one set of options."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        ids: list[int],
        options: Options,
        named: frozenset[str],
    ) -> None:
        self._tokenizer = tokenizer
        self._ids = ids
        self._options = options
        self._named = named
        self._texts: list[str] = []
        """The text that each step emits, and then the text of flush."""
        self._expected = ""
        self.is_unjudged = False

    def difference(self, chance: random.Random) -> Difference | None:
        """Return the first difference among all ways, or None."""
        how = "DecodeStream, one by one"
        try:
            stream = DecodeStream(self._tokenizer, **self._options)
            for token_id in self._ids:
                self._texts.append(stream.step(token_id))
            self._texts.append(stream.flush())
        except Exception as error:  # noqa: BLE001 (any exception is a difference)
            return replace(self._raised(how, error), token_index=len(self._texts))
        given = "".join(self._texts)
        self._expected = self._whole(given)
        if given != self._expected:
            return self._differs(how, given, self._expected)
        for way in _WAYS:
            found = way(self, chance)
            if found is not None:
                return found
        return None

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

    # --- the ways ---------------------------------------------------------------------------------

    def in_batches(self, chance: random.Random) -> Difference | None:
        """Stream in batches of random sizes."""
        stream = DecodeStream(self._tokenizer, **self._options)
        return self._compared("DecodeStream in random batches", stream, chance)

    def restored(self, chance: random.Random) -> Difference | None:
        """Stream in random batches, and restore the stream from JSON at random places."""
        stream = DecodeStream(self._tokenizer, **self._options)
        how = "DecodeStream, restored from snapshots"
        return self._compared(how, stream, chance, restored=MOST_RESTORED)

    def after_prompt(self, chance: random.Random) -> Difference | None:
        """Stream with the ids up to a random place as the prompt."""
        size = self._outside_a_run(chance.randint(0, len(self._ids)))
        stream = DecodeStream(self._tokenizer, self._ids[:size], **self._options)
        return self._compared("DecodeStream after a prompt", stream, chance, prompt=size)

    def without_stops(self, chance: random.Random) -> Difference | None:
        """Stream with a StopSequenceDecoder that has no stops."""
        stream = StopSequenceDecoder(self._tokenizer, StopConditions(), **self._options)
        how = "StopSequenceDecoder in random batches"
        return self._compared(how, stream, chance, restored=1)

    def with_stop(self, chance: random.Random) -> Difference | None:
        """Stream with a stop that the text contains, or a prefix of which it contains."""
        size = chance.randint(0, len(self._ids)) if chance.random() < 0.5 else 0
        size = self._outside_a_run(size)
        text = self._expected[len("".join(self._texts[:size])) :]
        start = chance.randint(0, max(len(text) - 1, 0))
        stop = text[start : start + chance.randint(1, LONGEST_STOP)] or "\n"
        if chance.random() < 0.25:
            stop += "\x00"  # the text contains a prefix of it, hardly ever all of it
        if stop in self._named:
            return None
        stream = StopSequenceDecoder(
            self._tokenizer, StopConditions(stop), self._ids[:size], **self._options
        )
        how = "StopSequenceDecoder with a stop" + (" after a prompt" if size else "")
        return self._compared(how, stream, chance, prompt=size, stop=stop, restored=1)

    def _outside_a_run(self, size: int) -> int:
        """Return the largest index up to ``size`` that is not inside a held run of byte tokens.

        The complete characters of a run that a prompt ends in belong to the prompt (law 4), so the
        text of the rest cannot be compared there.
        """
        if self._options["byte_fallback"] != "exact":
            return size
        stream = DecodeStream(self._tokenizer, **self._options)
        place = 0
        for index, token_id in enumerate(self._ids[:size], 1):
            stream.step(token_id)
            place = place if stream.held else index
        return place

    def _compared(
        self,
        how: str,
        stream: DecodeStream | StopSequenceDecoder,
        chance: random.Random,
        *,
        prompt: int = 0,
        stop: str | None = None,
        restored: int = 0,
    ) -> Difference | None:
        before = "".join(self._texts[:prompt])
        expected = self._expected
        if stop is not None:
            end = first_stop(expected[len(before) :], [stop])
            expected = expected if end is None else expected[: len(before) + end]
        try:
            given = before + _streamed(
                stream, self._ids[prompt:], chance, self._tokenizer, restored
            )
        except Exception as error:  # noqa: BLE001
            return self._raised(how, error, prompt, stop)
        if given == expected:
            return None
        return self._differs(how, given, expected, prompt, stop)

    # --- differences ------------------------------------------------------------------------------

    def _differs(
        self, how: str, given: str, expected: str, prompt: int = 0, stop: str | None = None
    ) -> Difference:
        position = len(commonprefix([given, expected]))  # noqa: RUF071 (they are no paths)
        ends = [*accumulate(map(len, self._texts))]
        index = bisect_right(ends, position)
        return Difference(
            how,
            self._options,
            index if index < len(self._ids) else None,
            position,
            _around(given, position),
            _around(expected, position),
            prompt=prompt,
            stop=stop,
        )

    def _raised(
        self, how: str, error: Exception, prompt: int = 0, stop: str | None = None
    ) -> Difference:
        told = f"{type(error).__name__}: {error}"
        return Difference(how, self._options, None, None, error=told, prompt=prompt, stop=stop)


_WAYS: tuple[Callable[[_Row, random.Random], Difference | None], ...] = (
    _Row.in_batches,
    _Row.restored,
    _Row.after_prompt,
    _Row.without_stops,
    _Row.with_stop,
)


def _streamed(
    stream: DecodeStream | StopSequenceDecoder,
    ids: Sequence[int],
    chance: random.Random,
    tokenizer: Tokenizer,
    restored: int,
) -> str:
    """Return the text of ``ids``, streamed in batches; ``restored`` is the number of restores."""
    batches = list(_batches(ids, chance))
    moves = {chance.randrange(len(batches)) for _ in range(restored)} if batches else set()
    texts = []
    for place, batch in enumerate(batches):
        if place in moves:
            snapshot = json.loads(json.dumps(stream.snapshot()))
            stream = type(stream).restore(tokenizer, snapshot)
        if isinstance(stream, DecodeStream):
            texts += stream.step_batch(batch)
        else:
            texts.append(stream.step_batch(batch).text)
            if stream.finished:
                return "".join(texts)
    end = stream.flush()
    return "".join([*texts, end if isinstance(end, str) else end.text])


def _batches(ids: Sequence[int], chance: random.Random) -> Iterator[Sequence[int]]:
    most, start = chance.choice(BATCHES), 0
    while start < len(ids):
        size = chance.randint(1, most)
        yield ids[start : start + size]
        start += size


def _around(text: str, position: int) -> str:
    return text[max(position - SHOWN // 2, 0) : position + SHOWN // 2]
