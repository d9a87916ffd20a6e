"""``StopSequenceDecoder`` does what the oracle reads in the laws.

The oracle is ``tests/stop_model.py``. Longer runs: ``python -m tests.stop_model --cases 100000``.
"""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings

from streamdec import MockTokenizer
from streamdec.core import decoder, restoring, since, step
from tests.stop_model import (
    RELEASE,
    Conditions,
    Model,
    Plan,
    Section,
    Situation,
    Table,
    decoder_of,
    difference_of,
    draw_case,
    draw_situation,
    draw_table,
    main,
    shown,
    smallest,
    text_of,
    tokenizer_of,
)
from tests.strategies import RANDOM

# The cases are made small by the model's own rules, which know what can be dropped.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


# The name of a skipped special token may be a part of a marker.
pytestmark = pytest.mark.filterwarnings("ignore:sections. the marker")


@given(RANDOM)
@settings(phases=UNSHRUNK)
def test_decoder_does_what_the_model_says(rng: random.Random) -> None:
    """After each token, in groups, after a snapshot, in a fork, after a reset."""
    case = draw_case(rng, draw_table(rng))
    if difference_of(case) is not None:
        pytest.fail(shown(*smallest(case)), pytrace=False)


@given(RANDOM)
@settings(phases=UNSHRUNK)
def test_decoder_does_what_the_model_says_wherever_the_clean_point_moves(
    rng: random.Random,
) -> None:
    """It moves as early as possible; usually not within so few tokens."""
    case = draw_case(rng, draw_table(rng))
    with ExitStack() as stack:
        for module in (decoder, restoring, since, step):
            stack.enter_context(patch.object(module, "MOST_SINCE", 0))
        if difference_of(case) is not None:
            pytest.fail(shown(*smallest(case)), pytrace=False)


def test_text_that_a_hidden_id_releases_is_before_the_marker_inside_its_character() -> None:
    situation = Situation(
        (b"\xf0", b"\x9f", b"\x98", b"\x80"),
        decoder="byte_fallback",
        conditions=Conditions(stop_token_ids=(3,)),
        sections=(Section("r", 2, 3),),
        operations=(0, 1, 2, 3),
    )
    assert difference_of((situation, Plan())) is None


def test_many_small_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """The run of the command line, on a few fixed cases."""
    status = main(["--cases", "600", "--seed", "7"])
    assert status == 0, capsys.readouterr().out


# --- the model itself -----------------------------------------------------------------------------


@given(RANDOM)
@settings(phases=UNSHRUNK)
def test_model_decodes_as_the_tokenizer_does(rng: random.Random) -> None:
    """Law 6, with the tokenizer's own decode as the oracle."""
    table = draw_table(rng)
    drawn = replace(draw_situation(rng, table, releases=False), prompt=(), unknown_ids="skip")
    mode = "eager" if table.decoder == "byte_level" else "exact"
    situation = replace(drawn, byte_fallback=mode)
    tokenizer = MockTokenizer.from_tokens(table.tokens, table.special_ids, table.decoder)
    text = text_of(Table(situation).decode(situation.operations, closed=True)[0])
    skip = situation.skip_special_tokens
    assert text == tokenizer.decode(situation.operations, skip_special_tokens=skip)


@given(RANDOM)
@settings(phases=UNSHRUNK)
def test_model_continues_the_prompt(rng: random.Random) -> None:
    """Law 4: what the prompt has decided and the output, joined, are the decode of all ids."""
    table = draw_table(rng)
    drawn = draw_situation(rng, replace(table, decoder="byte_level"), releases=False)
    situation = replace(drawn, unknown_ids="skip")
    tokenizer = MockTokenizer.from_tokens(table.tokens, table.special_ids)
    decided = text_of(Table(replace(situation, prompt=())).decode(situation.prompt)[0])
    text = text_of(Table(situation).decode(situation.operations, closed=True)[0])
    ids = situation.prompt + situation.operations
    skip = situation.skip_special_tokens
    assert decided + text == tokenizer.decode(ids, skip_special_tokens=skip)


@given(RANDOM)
@settings(phases=UNSHRUNK)
def test_model_never_takes_text_back(rng: random.Random) -> None:
    """Law 1 and law 14: the text only grows, and stays as it is after the finish."""
    situation = draw_situation(rng, draw_table(rng), releases=True)
    model = Model(situation)
    before = model.after(0)
    for count in range(1, len(situation.operations) + 1):
        after = model.after(count)
        assert after.text.startswith(before.text), situation
        if before.finish_reason is not None:
            assert after == before, situation
        before = after
    if situation.flush is not None:
        last = model.after(len(situation.operations), flush=situation.flush)
        assert last.text.startswith(before.text), situation
        assert last.finish_reason is not None


LETTERS = (b"a", b"b", b"\xc3", b"\xa9", b"ab")


def model_of(conditions: Conditions, *operations: int) -> Model:
    return Model(Situation(LETTERS, conditions=conditions, operations=operations))


def test_release_outputs_what_is_jailed() -> None:
    model = model_of(Conditions(stop=("ab",)), 0, RELEASE, 1)
    assert [model.after(count).text for count in range(4)] == ["", "", "a", "ab"]
    assert model.after(3).finish_reason is None


def test_release_may_complete_a_stop() -> None:
    model = model_of(Conditions(stop=("a\ufffd",)), 0, 2, RELEASE)
    assert model.after(2)[:3] == ("", b"\xc3", "a")
    seen = model.after(3)
    assert (seen.text, seen.finish_reason, seen.stop_reason) == ("", "stop", "a\ufffd")
    assert seen.match is not None
    assert seen.match.token_index == 1


def test_release_leaves_the_gate_as_it_is() -> None:
    conditions = Conditions(stop=("b",), ignore_stops_between=((99, "a"),), starts_inside=True)
    model = model_of(conditions, 0, RELEASE, 1)
    assert model.after(3).stop_reason == "b"
    model = model_of(replace(conditions, ignore_stops_between=((99, "ab"),)), 0, RELEASE, 1, 1)
    assert (model.after(4).text, model.after(4).finish_reason) == ("abb", None)


def test_release_outputs_a_part_of_a_marker() -> None:
    sections = (Section("r", "ab", "ba"),)
    situation = Situation(LETTERS, sections=sections, operations=(0, RELEASE, 1, 4, 1, 0, 0))
    model = Model(situation)
    seen = [model.after(count) for count in range(8)]
    assert [each.jailed for each in seen] == ["", "a", "", "", "", "b", "", "a"]
    assert seen[-1].parts == ((None, "ab"),)
    assert seen[4].parts == ((None, "ab"),)
    inside = Model(replace(situation, operations=(4, 0, 0)))
    assert inside.after(3).parts == (("r", "aa"),)


# --- law 15, with sections ------------------------------------------------------------------------


@given(RANDOM)
@settings(phases=UNSHRUNK)
def test_markers_that_repeat_take_no_more_memory(rng: random.Random) -> None:
    table = draw_table(rng)
    drawn = draw_situation(rng, table, releases=False, sections=True)
    if not drawn.sections:
        return
    situation = replace(
        drawn,
        conditions=replace(drawn.conditions, stop_token_ids=(), max_tokens=None, min_tokens=0),
        byte_fallback="eager",
        unknown_ids="skip",
    )
    tokenizer = tokenizer_of(table.tokens, table.special_ids, table.decoder)
    decoder = decoder_of(situation, tokenizer)
    markers = [each for section in situation.sections for each in section[1:]]
    ids = [each for each in markers if isinstance(each, int)]
    others = [] if rng.random() < 0.7 else [*situation.ids]
    cycle = rng.choices([*ids, *others] or [0], k=rng.randint(1, 3))
    sizes: list[int] = []
    for token_id in [*situation.ids[: rng.randrange(8)], *cycle * 120]:
        decoder.step(token_id)
        if decoder.finished:
            return
        sizes.append(len(json.dumps(decoder.snapshot())))
    half = len(sizes) // 2
    digits = 24  # each counter and index may have one digit more
    assert max(sizes[half:]) <= max(sizes[:half]) + digits, (situation, cycle)
