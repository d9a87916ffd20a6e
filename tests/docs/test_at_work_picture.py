"""The README's picture shows what its two programs print for the README's first example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tokenizers import Tokenizer

import streamdec
from tests.support.pages import DEMO, ROOT

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [ROOT / "docs" / "images" / name for name in ("at-work.svg", "at-work-narrow.svg")]
TEXT, STOP = "An owl 🦉 is up.\nUser: Who?", "\nUser:"
LIBRARY = Tokenizer.from_file(str(DEMO / "tokenizer.json"))


@pytest.fixture(params=PICTURES, ids=lambda path: path.stem)
def drawn(request: pytest.FixtureRequest) -> str:
    text: str = request.param.read_text("utf-8")
    return text


def _texts(drawn: str, attribute: str, *values: str) -> list[str]:
    """The texts with one of these values, in the order of the file."""
    return [
        "".join(each.itertext())
        for each in ET.fromstring(drawn).iter(f"{SVG}text")
        if {*values} & {*each.get(attribute, "").split()}
    ]


def _output(drawn: str, by: str) -> str:
    return "\n".join(_texts(drawn, "data-by", by))


def _programs(drawn: str) -> dict[str, str]:
    loop, _, ours = "\n".join(_texts(drawn, "class", "code")).partition("\nfor chunk in")
    return {"loop": loop, "streamdec": f"for chunk in{ours}"}


def _printed(program: str, tokenizer: Any) -> list[str]:
    """What a program prints between one id and the next."""
    printed: list[str] = []

    def read() -> Iterator[int]:
        for token_id in LIBRARY.encode(TEXT).ids:
            printed.append("")
            yield token_id

    def note(text: str, end: str) -> None:
        printed[-1] += text + end

    names = {"token_ids": read(), "stop": STOP, "tokenizer": tokenizer, "print": note}
    exec(program, names | {"iter_chunks": streamdec.iter_chunks})
    return printed


def _shown(text: str) -> str:
    return text.replace("\n", "\\n").replace(" ", "·")


def test_each_program_prints_what_the_picture_shows(drawn: str) -> None:
    """Together, and for each id."""
    programs = _programs(drawn)
    loop = _printed(programs["loop"], LIBRARY)
    ours = _printed(programs["streamdec"], streamdec.HuggingFaceTokenizer(LIBRARY))
    assert _output(drawn, "loop") == "".join(loop)
    assert _output(drawn, "streamdec") == "".join(ours) == TEXT.partition(STOP)[0]
    rows = [*zip(*[iter(_texts(drawn, "class", "cell", "id", "wait"))] * 4, strict=True)]
    ids = LIBRARY.encode(TEXT).ids[: len(rows)]
    assert [int(token_id) for _, token_id, _, _ in rows] == ids
    assert [theirs for _, _, theirs, _ in rows] == [
        *(_shown(text) for text in loop if text),
        *["stop"] * (len(rows) - len([*filter(None, loop)])),
    ]
    assert [mine for *_, mine in rows] == [_shown(text) or "wait" for text in ours[:-1]] + ["stop"]


def test_the_picture_fits_dark_pages_and_loads_nothing(drawn: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in drawn
    assert not re.search(r"href|url\(|<script|@import", drawn)
