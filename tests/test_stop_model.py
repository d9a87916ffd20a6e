"""``StopSequenceDecoder`` does what the oracle reads in the laws.

The oracle is ``tests/stop_model.py``. Longer runs: ``python -m tests.stop_model --cases 100000``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stop_model import (
    Conditions,
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

CASES = st.randoms(use_true_random=False).map(
    lambda rng: draw_case(rng, draw_table(rng, rules=True))
)


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
