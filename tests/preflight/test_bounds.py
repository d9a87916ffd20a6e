"""Files made to cost much: how much is searched and reported is bounded."""

from __future__ import annotations

import json
from pathlib import Path

from streamdec.preflight import inspect
from streamdec.preflight.turns import Marker, Probes, Turns, find_turns
from tests.preflight.making import control


def test_long_texts_are_shortened_where_they_are_shown(tmp_path: Path) -> None:
    text = "y" * 10_000
    report = inspect(control(lambda p: p.say(eos_token=text)).write(tmp_path), render=False)
    shown = json.dumps(report.to_dict(), ensure_ascii=False)
    assert f'"{"y" * 500}…"' in shown
    assert "y" * 501 not in shown


def test_markers_are_looked_for_near_the_turns() -> None:
    """However much a template writes between them."""
    flood = "z" * 4_000_000
    rendered = {
        "answered": f"qzanswerzq<e>{flood}",
        "followed": f"qzanswerzq<e>{flood}<u>qzquestionzq",
    }
    markers = {"<e>": 1, "<u>": 2} | {f"<{i}>": 10 + i for i in range(20_000)}
    found = find_turns(Probes(rendered=rendered), markers)
    assert found == Turns(Marker("<e>", 1), Marker("<u>", 2))
