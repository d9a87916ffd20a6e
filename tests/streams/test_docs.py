"""The page on engines: what its examples do not show. ``tests/docs`` runs them."""

from __future__ import annotations

import inspect
import re

from streamdec import stream, wrap
from streamdec.streams import DecoderOptions
from tests.support.pages import Page, printed_by

PATH = "docs/how-to/your-engine.md"


def test_the_table_of_options_has_them_all() -> None:
    cells = " ".join(Page(PATH, "Options of a stream").rows("option"))
    options = {*inspect.signature(stream).parameters, *DecoderOptions.__annotations__}
    options -= {"source", "tokenizer", "options"}
    assert {*re.findall(r"`(\w+)`", cells)} == options
    own = [name for name in inspect.signature(wrap).parameters if name not in ("source", "decoder")]
    assert {*re.findall(r"`(\w+)`", cells[cells.index("`ids`") :])} == {*own}


def test_the_engines_thread_of_the_page_ends_if_its_reader_is_cancelled() -> None:
    """Its requests are aborted, so they are unknown in the next round, and it drops them."""
    code = Page(PATH, "A batch").examples[-1][0]
    for old, new in (
        ('StopConditions(stop=".")', "StopConditions()"),
        ("asyncio.run(main())", CANCELLED),
        ("print(set(sent), len(pool))", "print(len(pool))"),
    ):
        assert old in code
        code = code.replace(old, new)
    assert printed_by(code) == ["0"]


CANCELLED = """
try:
    asyncio.run(asyncio.wait_for(main(), 1))
except TimeoutError:
    pass
"""
