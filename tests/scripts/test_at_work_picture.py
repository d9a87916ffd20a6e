"""The README's picture, wide and narrow: drawn again it is the same, and both halves are true."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream as LibraryStream

from tests.support.pages import ROOT

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [ROOT / "docs" / "images" / name for name in ("at-work.svg", "at-work-narrow.svg")]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "make_at_work_picture.py"))


@pytest.fixture(scope="module")
def run(script: dict[str, Any]) -> Any:
    return script["run"]()


@pytest.fixture(scope="module")
def library(script: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_file(str(script["TOKENIZER"]))


@pytest.fixture(scope="module")
def conversation(script: dict[str, Any], library: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids of the prompt and those that follow, cut here by what a text of ids ends in."""
    text = "".join(script[part] for part in ("CONVERSATION", "ANSWER", "STOP", "GOES_ON"))
    ids = library.encode(text).ids
    limit = min(n for n in range(len(ids)) if REPLACEMENT in library.decode(ids[:n]))
    return ids[:limit], ids[limit:]


@pytest.fixture(params=PICTURES, ids=lambda path: path.stem)
def drawn(request: pytest.FixtureRequest) -> str:
    """A picture as it is in the repository."""
    path: Path = request.param
    return path.read_text("utf-8")


def _given(drawn: str, by: str) -> str:
    """What the drawing shows as given by one of the two."""
    lines = [
        (float(text.get("y") or 0), "".join(text.itertext()))
        for text in ET.fromstring(drawn).iter(f"{SVG}text")
        if text.get("data-by") == by
    ]
    return "\n".join(line for _, line in sorted(lines))


def test_drawn_again_they_are_the_same(script: dict[str, Any], run: Any) -> None:
    drawn = {path: path.read_text("utf-8") for path in PICTURES}
    (versions,) = {script["recorded_versions"](each) for each in drawn.values()}
    assert re.fullmatch(r"tokenizers \d+\.\d+\.\d+", versions)
    assert script["pictures"](run, versions) == drawn, "run scripts/make_at_work_picture.py"


def test_the_half_of_streamdec_is_the_library_s_own_decode_of_all_ids(
    drawn: str,
    script: dict[str, Any],
    library: Tokenizer,
    conversation: tuple[list[int], list[int]],
) -> None:
    """Less what the prompt had decided, up to the stop."""
    prompt, generated = conversation
    before = library.decode(prompt).rstrip(REPLACEMENT)
    text, stop, _ = (
        library.decode(prompt + generated).removeprefix(before).partition(script["STOP"])
    )
    assert stop
    assert _given(drawn, "streamdec") == text


def test_the_half_of_the_library_is_what_it_gives_as_it_is_installed(
    drawn: str,
    script: dict[str, Any],
    library: Tokenizer,
    conversation: tuple[list[int], list[int]],
) -> None:
    """Every piece that went out before the stop could be seen in the text."""
    prompt, generated = conversation
    stream = LibraryStream(ids=prompt, skip_special_tokens=True)
    given = ""
    for token_id in generated:
        piece = stream.step(library, token_id) or ""
        if script["STOP"] in given + piece:
            break
        given += piece
    with_, then = script["versions"](), script["recorded_versions"](drawn)
    assert _given(drawn, "tokenizers") == given, f"{with_} gives another text than {then} did"


def test_what_went_wrong_is_marked(
    drawn: str,
    run: Any,
    script: dict[str, Any],
    library: Tokenizer,
    conversation: tuple[list[int], list[int]],
) -> None:
    assert run.echo == library.decode(conversation[0]).rstrip(REPLACEMENT) != ""
    assert run.leak == script["STOP"][: len(run.leak)] != ""
    marked = {"prompt": "", "stop": ""}
    for span in ET.fromstring(drawn).iter(f"{SVG}tspan"):
        for kind in marked.keys() & (span.get("class") or "").split():
            marked[kind] += span.text or ""
    assert marked == {"prompt": run.echo.replace("\n", ""), "stop": run.leak.replace("\n", "")}


def test_each_id_appears_with_its_number_and_what_it_gave_at_its_time(drawn: str, run: Any) -> None:
    ids = [step.token.token_id for step in run.steps]
    root = ET.fromstring(drawn)
    numbers = [(each.text, each.get("class")) for each in root.iter(f"{SVG}text")]
    for place, token_id in enumerate(ids):
        assert (str(token_id), f"id s{place}") in numbers
        assert f"@keyframes s{place} " in drawn
    pieces = [each.get("class") for each in root.iter(f"{SVG}tspan")]
    assert all(re.search(r"(^| )s\d+$", each or "") for each in pieces)


def test_it_is_shown_where_nothing_moves_and_on_dark_pages(drawn: str) -> None:
    """What comes with a token is hidden by its animation alone; and nothing is fetched or run."""
    assert "@media (prefers-reduced-motion: reduce) { * { animation: none !important } }" in drawn
    assert "@media (prefers-color-scheme: dark)" in drawn
    style = drawn.partition("<style>")[2].partition("</style>")[0]
    rules = re.sub(r"@keyframes \w+ \{(?: [^{}]*\{[^{}]*\})* \}", "", style)
    assert rules.count("@keyframes") == 0
    hidden = re.findall(r"^\.(\w+) \{ visibility: hidden;", rules, re.MULTILINE)
    assert hidden
    assert not [name for name in hidden if not name.startswith("from")]
    assert not re.search(r"href|url\(|<script|@import", drawn)
