"""A warning points to the line that called streamdec, through any calls between."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamdec import (
    MockTokenizer,
    StreamdecWarning,
    iter_chunks,
    load_tokenizer,
    stream,
)
from streamdec.backends.hybrid import VARIABLE
from streamdec.tokenizers import HybridTokenizer
from tests.cli.running import TOKENIZER

MOCK = MockTokenizer()
GROWING = [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]


def ended() -> Iterator[int]:
    """A generator that was read before."""
    source = (token_id for token_id in [1])
    next(source)
    source.close()
    return source


def stream_cumulative() -> None:
    async def engine() -> AsyncIterator[list[int]]:
        for output in GROWING:
            yield output

    async def read() -> None:
        async for _ in stream(engine(), MOCK):
            pass

    anyio.run(read)


@pytest.mark.parametrize(
    "call",
    [
        lambda: list(iter_chunks(GROWING, MOCK)),
        stream_cumulative,
        lambda: load_tokenizer(TOKENIZER),
        lambda: HybridTokenizer(TOKENIZER),
    ],
)
def test_a_warning_points_to_the_caller(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "sometimes")  # which both ways to load warn of
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    ours = [each for each in caught if each.category is StreamdecWarning]
    assert ours
    assert {Path(each.filename) for each in ours} == {Path(__file__)}


@pytest.mark.filterwarnings("ignore::streamdec.StreamdecWarning")
@pytest.mark.parametrize("name", [None, 7])
def test_a_module_without_a_usual_name_can_be_warned(name: Any) -> None:
    names: dict[str, Any] = {"__name__": name, "open": iter_chunks, "source": ended(), "mock": MOCK}
    exec("chunks = open(source, mock)", names)
    assert [chunk.text for chunk in names["chunks"]] == [""]
