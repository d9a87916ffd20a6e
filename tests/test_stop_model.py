"""``StopSequenceDecoder`` does what the oracle reads in the laws.

The oracle is ``tests/stop_model.py``. Longer runs: ``python -m tests.stop_model --cases 100000``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stop_model import (
    RELEASE,
    Conditions,
    Model,
    Plan,
    Section,
    Situation,
    compare,
    draw_case,
    draw_table,
    main,
)
from tests.support.caches import short_histories

# The name of a skipped special token may be a part of a marker.
pytestmark = pytest.mark.filterwarnings("ignore:sections. the marker")

CASES = st.randoms(use_true_random=False).map(lambda rng: draw_case(rng, draw_table(rng)))


@pytest.fixture(params=[nullcontext, short_histories])
def history(request: pytest.FixtureRequest) -> Iterator[None]:
    with request.param():
        yield


@pytest.mark.usefixtures("history")
@given(case=CASES)
def test_decoder_does_what_the_model_says(case: tuple[Situation, Plan]) -> None:
    """After each token, in groups, after a snapshot, in a fork, after a reset."""
    compare(*case)


@pytest.mark.usefixtures("history")
def test_many_small_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """The run of the command line, on a few fixed cases."""
    assert main(["--cases", "260", "--seed", "7"]) == 0
    assert capsys.readouterr().out == "260 cases, no difference\n"


def test_text_that_a_hidden_id_releases_is_before_the_marker_inside_its_character() -> None:
    situation = Situation(
        (b"\xf0", b"\x9f", b"\x98", b"\x80"),
        decoder="byte_fallback",
        conditions=Conditions(stop_token_ids=(3,)),
        sections=(Section("r", 2, 3),),
        operations=(0, 1, 2, 3),
    )
    compare(situation, Plan())


# --- the model itself -----------------------------------------------------------------------------


LETTERS = (b"a", b"b", b"\xc3", b"\xa9", b"ab")


def model_of(conditions: Conditions, *operations: int) -> Model:
    return Model(Situation(LETTERS, conditions=conditions, operations=operations))


def test_release_outputs_what_is_jailed() -> None:
    model = model_of(Conditions(stop=("ab",)), 0, RELEASE, 1)
    assert [model.after(count).text for count in range(4)] == ["", "", "a", "ab"]
    assert model.after(3).finish_reason is None


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
