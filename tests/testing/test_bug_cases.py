"""The bug cases that are shipped: whole, typed, and right by Python's own decoding."""

from __future__ import annotations

import re

import pytest

from streamdec.testing import BugCase, bug_cases
from streamdec.testing.expectations import cut_at_stop


@pytest.fixture(params=bug_cases(), ids=lambda case: case.id)
def case(request: pytest.FixtureRequest) -> BugCase:
    found: BugCase = request.param
    return found


def test_each_case_has_its_own_name() -> None:
    assert len({case.id for case in bug_cases()}) == len(bug_cases()) >= 81


def test_each_case_has_its_source_and_the_result_of_python(case: BugCase) -> None:
    """An oracle that knows no stream: the bytes that are shown, decoded at once, and cut."""
    source = case.source.removeprefix("derived from ")
    assert re.match(r"[\w.-]+/[\w.-]+[# ]|derived", source)
    assert re.fullmatch(r"[A-Z0-9].*\.", case.note)
    shown = [token for place, token in enumerate(case.tokens) if place not in case.skipped]
    text = b"".join(shown).decode("utf-8", "replace")
    # Nothing may stop within what the first tokens, which are never a part of a stop here, say.
    ignored = len(b"".join(shown[: case.min_tokens]).decode("utf-8", "replace"))
    cut = cut_at_stop(text[ignored:], [stop for stop in case.stop if stop])
    if cut is not None:
        end = cut.end if case.include_stop_str_in_output else cut.start
        text = text[: ignored + end]
    assert text == case.expected_text
    assert (cut.stop if cut else None) == case.expected_stop_reason
    assert case.expected_finish == ("stop" if cut else "length")
