"""Law 19 as it is written, beside SectionDecoder: any tokens, conditions, markers and releases.

``tests/stop_model.py`` gives the decided text and its tokens. A StopSequenceDecoder gives the part
of it that is output.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from streamdec import Chunk, SectionDecoder, StopSequenceDecoder, TokenIdError
from streamdec.chunks import Withheld
from tests.decoders.test_section_decoder import Pieces, merged, pieces_of
from tests.stop_model import (
    RELEASE,
    Conditions,
    Situation,
    Table,
    TokenTable,
    draw_situation,
    draw_table,
    text_of,
    tokenizer_of,
)

Marker = str | int


class Section(NamedTuple):
    name: str
    opening: Marker
    closing: Marker


class Reading:
    """The sections of a text, read one code point after the other. Nothing is kept between texts.

    Args:
        situation: with the operations so far.
        sections: the definition.
        at: the section in which the stream begins, from 1 on; 0 outside.
        size: how many code points the decoder has returned.
        has_ended: whether the stream has ended.
    """

    def __init__(
        self,
        situation: Situation,
        sections: list[Section],
        at: int,
        size: int,
        *,
        has_ended: bool,
    ) -> None:
        self.table, self.sections, self.at = Table(situation), sections, at
        self.pieces: list[tuple[int, str]] = []
        self.unread = ""
        operations = situation.operations
        points, held = self.table.decode(operations, closed=has_ended)
        unfinished_at = size  # a marker whose end is jailed yet is withheld whole
        releases = [
            len(self.table.decode(operations[: place + 1])[0])
            for place, each in enumerate(operations)
            if each == RELEASE
        ]
        ids = [each for each in operations if each != RELEASE]
        read = owner = -1
        for place, (text, first, _) in enumerate(points[:]):
            if place in releases:
                self.output(len(self.unread))
            for index in range(read + 1, min(first + 1, len(ids))):
                read = index
                target = self.target_of(ids[index])
                if target is not None:
                    self.output(len(self.unread))
                    owner, self.at = index, target
            if owner >= 0 and first <= owner:
                self.pieces.append((-1, text))
                continue
            self.unread += text
            found = [each for each in self.markers() if self.unread.endswith(each)]
            if found:
                marker = max(found, key=len)
                target = self.markers()[marker]
                self.output(len(self.unread) - len(marker))
                if place >= size:
                    unfinished_at = min(unfinished_at, place + 1 - len(marker))
                self.pieces += [(-1, each) for each in marker]
                self.unread, self.at = "", target
        if len(points) in releases:
            self.output(len(self.unread))
        last = held[0][1] if held else len(ids) - 1
        for index in range(read + 1, last + 1):
            target = self.target_of(ids[index])
            if target is not None:
                self.output(len(self.unread))
                self.at = target
        tails = [
            len(self.unread) - start
            for start in range(len(self.unread))
            for each in self.markers()
            if each.startswith(self.unread[start:])
        ]
        self.output(len(self.unread) - (0 if has_ended else max(tails, default=0)))
        first = min(len(self.pieces), unfinished_at)
        waiting = [points[first].first] if first < len(points) else []
        waiting += [owner for _, owner in held[:1]]
        since = max(min(waiting, default=len(ids)), 0)
        self.jailed = text_of(points[first:])
        self.withheld = Withheld(len(held), len(self.jailed), len(ids) - since)
        names = [None, *(each.name for each in sections)]
        shown = [(names[at], text) for at, text in self.pieces[:size] if at >= 0]
        self.shown: Pieces = merged(shown)

    def targets(self) -> list[tuple[Marker, int]]:
        """The markers that count now, and where each leads."""
        if self.at:
            return [(self.sections[self.at - 1].closing, 0)]
        return [(each.opening, at) for at, each in enumerate(self.sections, 1)]

    def markers(self) -> dict[str, int]:
        return {marker: at for marker, at in self.targets() if isinstance(marker, str)}

    def target_of(self, token_id: int) -> int | None:
        for marker, at in self.targets():
            ids = self.table.skipped_ids_of(marker) if isinstance(marker, str) else {marker}
            if token_id in ids:
                return at
        return None

    def output(self, size: int) -> None:
        self.pieces += [(self.at, each) for each in self.unread[:size]]
        self.unread = self.unread[size:]


def draw_sections(rng: random.Random, table: TokenTable, situation: Situation) -> list[Section]:
    text = text_of(Table(situation).decode(situation.operations, closed=True)[0])
    ids = [each for each in situation.operations if each >= 0] or [0]

    def draw_marker() -> Marker:
        chance = rng.random()
        if chance < 0.45:
            return rng.choice(ids)
        if chance < 0.6 and table.special_ids:
            special = table.tokens[rng.choice(table.special_ids)].decode(errors="replace")
            return special or rng.choice(table.letters)
        if text and chance < 0.9:
            start = rng.randrange(len(text))
            return text[start : start + rng.randint(1, 3)]
        return "".join(rng.choices(table.letters, k=rng.randint(1, 2)))

    drawn = [Section(name, draw_marker(), draw_marker()) for name in rng.choice(("r", "rq"))]
    by_opening = {each.opening: each for each in drawn if each.opening != each.closing}
    return [*by_opening.values()]


@pytest.mark.filterwarnings("ignore:sections. the marker")  # a part of it is skipped
@given(st.integers(0, 2**64))
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_sections_follow_law_19(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        check_case(rng)


def check_case(rng: random.Random) -> None:
    table = draw_table(rng)
    situation = draw_situation(rng, table, releases=True)
    if rng.random() < 0.5:  # most stops would end the stream early
        situation = replace(situation, conditions=Conditions())
    sections = draw_sections(rng, table, situation)
    if not sections:
        return
    tokenizer = tokenizer_of(table.tokens, table.special_ids, table.decoder)
    conditions = situation.conditions.build()
    options: dict[str, Any] = situation.options
    plain = StopSequenceDecoder(tokenizer, conditions, situation.prompt, **options)
    decoder = SectionDecoder(
        tokenizer,
        conditions,
        situation.prompt,
        sections={each.name: each[1:] for each in sections},
        starts_inside=rng.choice((None, False, True)),
        **options,
    )
    names = [None, *(each.name for each in sections)]
    begins_at = names.index(decoder.section)
    done: list[int] = []
    size, chunks = 0, list[Chunk]()

    def check(expected: Chunk, chunk: Chunk) -> None:
        nonlocal size
        size += len(expected.text)
        chunks.append(chunk)
        ends = (expected.finish_reason, expected.stop_reason, plain.match, plain.num_tokens)
        assert ends == (chunk.finish_reason, chunk.stop_reason, decoder.match, decoder.num_tokens)
        if plain.finish_reason == "stop":
            return  # how much was decided before the stop is not asked of the model
        now = replace(situation, operations=tuple(done))
        reading = Reading(
            now,
            sections,
            begins_at,
            size,
            has_ended=plain.finished,
        )
        assert pieces_of(chunks) == reading.shown, (now, sections)
        if not plain.finished:
            seen = decoder.jailed, decoder.withheld
            assert seen == (reading.jailed, reading.withheld), (now, sections)

    if rng.random() < 0.1:
        decoder.step_batch(
            each for each in situation.operations if each in range(len(table.tokens))
        )
        decoder.reset()
    for operation in situation.operations:
        if plain.finished:
            return
        if rng.random() < 0.2:
            snapshot = json.loads(json.dumps(decoder.snapshot()))
            if rng.random() < 0.7:
                decoder = SectionDecoder.restore(tokenizer, snapshot)
        elif rng.random() < 0.1:
            decoder = decoder.fork()
        done.append(operation)
        if operation == RELEASE:
            check(plain.release(), decoder.release())
            continue
        try:
            expected = plain.step(operation)
        except TokenIdError:
            return
        check(expected, decoder.step(operation))
    if not plain.finished:
        pending = decoder.pending_text
        check(plain.flush(), decoder.flush())
        assert chunks[-1].text == pending


@pytest.mark.filterwarnings("ignore:sections. the marker")  # a part of it is skipped
@given(st.integers(0, 2**64))
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_ids_that_repeat_take_no_more_memory(seed: int) -> None:
    """Law 15, without the open run of ``byte_fallback="exact"``."""
    rng = random.Random(seed)
    for _ in range(8):
        check_repeats(rng)


def check_repeats(rng: random.Random) -> None:
    table = draw_table(rng)
    situation = draw_situation(rng, table, releases=False)
    sections = draw_sections(rng, table, situation)
    if not sections:
        return
    tokenizer = tokenizer_of(table.tokens, table.special_ids, table.decoder)
    conditions = replace(situation.conditions, stop_token_ids=(), max_tokens=None)
    decoder = SectionDecoder(
        tokenizer,
        conditions.build(),
        situation.prompt,
        sections={each.name: each[1:] for each in sections},
        **{**situation.options, "byte_fallback": "eager", "unknown_ids": "skip"},
    )
    markers = [each for section in sections for each in section[1:] if isinstance(each, int)]
    others = [] if rng.random() < 0.7 else [*situation.operations]
    cycle = rng.choices([*markers, *others] or [0], k=rng.randint(1, 3))
    sizes: list[int] = []
    for token_id in [*situation.operations[: rng.randrange(8)], *cycle * 40]:
        decoder.step(token_id)
        if decoder.finished:
            return
        noted = decoder.snapshot()["sections"]
        sizes.append(len(noted.get("ids", [])) + len(noted.get("origins", [])))
    half = len(sizes) // 2
    assert max(sizes[half:]) <= max(sizes[:half]), (situation, sections, cycle)
