"""The README's picture shows what its two programs print, and is drawn by its script."""

from __future__ import annotations

import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tokenizers import Tokenizer

import streamdec
from tests.support.pages import ROOT, Page

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [ROOT / "docs" / "images" / name for name in ("at-work.svg", "at-work-narrow.svg")]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "make_at_work_picture.py"))


@pytest.fixture(scope="module")
def library(script: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_file(str(script["TOKENIZER"]))


@pytest.fixture(params=PICTURES, ids=lambda path: path.stem)
def drawn(request: pytest.FixtureRequest) -> str:
    """A picture as it is in the repository."""
    path: Path = request.param
    return path.read_text("utf-8")


def _texts(drawn: str, kind: str) -> list[str]:
    """The texts of a class, from the top down."""
    return [
        "".join(each.itertext())
        for each in ET.fromstring(drawn).iter(f"{SVG}text")
        if kind in (each.get("class") or "").split()
    ]


def _output(drawn: str, by: str) -> str:
    lines = ET.fromstring(drawn).iter(f"{SVG}text")
    return "\n".join("".join(each.itertext()) for each in lines if each.get("data-by") == by)


def test_drawing_again_gives_the_same_pictures(script: dict[str, Any]) -> None:
    drawn = {path: path.read_text("utf-8") for path in PICTURES}
    (versions,) = {script["recorded_versions"](each) for each in drawn.values()}
    assert re.fullmatch(r"tokenizers \d+\.\d+\.\d+", versions)
    assert script["pictures"](script["run"](), versions) == drawn, (
        "run scripts/make_at_work_picture.py"
    )


def test_each_program_prints_what_the_picture_shows(
    drawn: str, script: dict[str, Any], library: Tokenizer
) -> None:
    """The code is read from the picture."""
    code = "\n".join(_texts(drawn, "code"))
    loop, _, ours = code.partition("\nfor chunk in")
    names: dict[str, Any] = {"token_ids": library.encode(script["TEXT"]).ids}
    names |= {"stop": script["STOP"], "iter_chunks": streamdec.iter_chunks}
    for by, program, tokenizer in (
        ("loop", loop, library),
        ("streamdec", f"for chunk in{ours}", streamdec.HuggingFaceTokenizer(library)),
    ):
        with redirect_stdout(io.StringIO()) as printed:
            exec(program, names | {"tokenizer": tokenizer})
        assert _output(drawn, by) == printed.getvalue() != ""


def test_streamdec_prints_the_full_decode_up_to_the_stop(
    drawn: str, script: dict[str, Any], library: Tokenizer
) -> None:
    text, stop, _ = library.decode(library.encode(script["TEXT"]).ids).partition(script["STOP"])
    assert stop
    assert _output(drawn, "streamdec") == text


def test_the_broken_character_and_the_part_of_the_stop_are_marked(
    drawn: str, script: dict[str, Any]
) -> None:
    wrong = [
        each.text or ""
        for each in ET.fromstring(drawn).iter(f"{SVG}tspan")
        if each.get("class") == "wrong"
    ]
    assert wrong == [REPLACEMENT * 3, "User"]
    assert script["STOP"].startswith("\nUser")
    assert _texts(drawn, "end") == ["broken character", "part of the stop"]


def test_the_picture_is_of_the_example_beside_it(
    drawn: str, script: dict[str, Any], library: Tokenizer
) -> None:
    readme = Page("README.md")
    example, text = readme.examples[0]
    assert script["recorded_versions"](drawn) in readme.text
    assert repr(script["TEXT"])[1:-1] in example
    assert text.startswith(_output(drawn, "streamdec"))
    ids = library.encode(script["TEXT"]).ids
    numbers = [int(each) for each in _texts(drawn, "id")]
    assert numbers == ids[: len(numbers)]
    assert library.decode(numbers).endswith(script["STOP"])


def test_the_picture_fits_dark_pages_and_loads_nothing(drawn: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in drawn
    assert not re.search(r"href|url\(|<script|@import", drawn)
