"""Files made to cost much: how much is read, kept and reported is bounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamdec.preflight import effective_stop_tokens, inspect
from streamdec.preflight.eos_sources import MAX_IDS
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import MAX_ADDED, MAX_ADDED_TEXT, MAX_NAMED, Tokens
from streamdec.preflight.turns import Marker, Probes, Turns, find_turns
from tests.preflight.making import Parts, added, control

MANY = MAX_ADDED + 1


def many_added(parts: Parts) -> None:
    own = [{"id": 256 + i, **added(f"<{i}>")} for i in range(MANY)]
    assert parts.tokenizer is not None
    parts.tokenizer["added_tokens"] = own


def many_legacy(parts: Parts) -> None:
    assert parts.tokenizer_config is not None
    del parts.tokenizer_config["added_tokens_decoder"]
    parts.others["added_tokens.json"] = {f"<{i}>": 300 + i for i in range(MANY)}


def long_added(parts: Parts) -> None:
    parts.own.append({"id": 260, **added("x" * (MAX_ADDED_TEXT + 1))})


TOO_MUCH: dict[str, tuple[str, Callable[[Parts], Any]]] = {
    "added": ("more than 100,000 added tokens", many_added),
    "legacy": ("more than 100,000 added tokens", many_legacy),
    "extra": (
        "more than 100,000 added tokens",
        lambda p: p.say(extra_special_tokens=[f"<{i}>" for i in range(MANY)]),
    ),
    "named": (
        "more than 100,000 added tokens",
        lambda p: p.say(extra_special_tokens={f"n{i}": f"<{i}>" for i in range(MANY)}),
    ),
    "long": ("added tokens of more than 2,097,152 characters", long_added),
    "long role": (
        "added tokens of more than 2,097,152 characters",
        lambda p: p.say(eos_token="x" * (MAX_ADDED_TEXT + 1)),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_tokenizer_of_too_many_tokens_is_not_built(name: str, tmp_path: Path) -> None:
    told, change = TOO_MUCH[name]
    report = inspect(control(change).write(tmp_path), render=False)
    (finding,) = (f for f in report.findings if f.code == "TOKENIZER_JSON_INVALID")
    assert [evidence.note for evidence in finding.evidence] == [told]
    assert len(json.dumps(report.to_dict())) < 500_000


def test_names_beyond_a_thousand_are_not_reported(tmp_path: Path) -> None:
    named = {f"n{i}": "<|pad|>" for i in range(MAX_NAMED)}
    parts = control(lambda p: p.say(extra_special_tokens=named))
    roles = Tokens(Snapshot(parts.write(tmp_path))).roles
    assert len(roles) == MAX_NAMED
    assert "eos_token" in roles


def test_only_the_first_ids_of_a_list_are_read(tmp_path: Path) -> None:
    parts = control()
    assert parts.generation is not None
    parts.generation["eos_token_id"] = [258] * MAX_IDS
    folder = parts.write(tmp_path)
    found = effective_stop_tokens(folder, "transformers")
    assert (found.ids, found.notes) == (frozenset({258}), ())
    parts.generation["eos_token_id"] = [*range(MAX_IDS), 258, *range(MAX_IDS)]
    found = effective_stop_tokens(parts.write(tmp_path), "transformers")
    assert found.ids == frozenset(range(MAX_IDS))
    assert found.notes == ("of a list of more than 1,000 ids the first are read",)


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
