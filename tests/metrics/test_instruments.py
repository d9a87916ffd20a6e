"""The table of instruments fits the events that it is read from."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamdec.metrics.instruments import INSTRUMENTS, Instrument


@pytest.mark.parametrize("each", INSTRUMENTS, ids=lambda each: each.name)
def test_an_instrument_is_one_that_can_be_read(each: Instrument) -> None:
    fields: Any = each.source._fields  # type: ignore[attr-defined]
    assert {*each.labels} <= {*fields}
    assert each.value is None or each.value in fields
    assert not each.only_successes or "error_type" in fields
    assert (each.buckets is not None) == (each.kind == "histogram")
    assert re.fullmatch(r"[A-Z].*\.", each.description)
    if each.buckets is not None:
        assert each.buckets == tuple(sorted(set(each.buckets)))
