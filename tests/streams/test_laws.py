"""The laws of streams that wait, on drawn tokenizers, conditions, ids and groupings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import Chunk, DecodeStream
from streamdec.streams.reading import Machine
from tests.stop_laws import Setup, setup_of
from tests.stop_model import Situation
from tests.strategies import cuts, situations
from tests.streams import laws
from tests.streams.engines import grouped
from tests.streams.laws import MACHINES, Trail, trail_of

# Ids that are drawn may repeat all those before them.
pytestmark = pytest.mark.filterwarnings("ignore:.*seem to be cumulative")

ROUNDS = 2
"""The first stream fills the table, the second finds it filled."""


class Case(NamedTuple):
    """A stream, where it runs, and what becomes one chunk."""

    situation: Situation
    backend: str
    chunk_by: str


CASES = st.builds(
    Case, situations(), st.sampled_from(["asyncio", "trio"]), st.sampled_from(["output", "token"])
)


@pytest.fixture(params=[*MACHINES])
def make(request: pytest.FixtureRequest) -> Callable[[Setup], Machine]:
    return MACHINES[request.param]


def run(
    backend: str, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kw: Any
) -> Any:
    async def main() -> Any:
        return await function(*args, **kw)

    return anyio.run(main, backend=backend)


SHAPES: dict[str, Callable[[Sequence[int]], Any]] = {
    "ids": lambda ids: ids[0] if len(ids) == 1 else ids,
    "lists": list,
    "tuples": tuple,
    "arrays": np.array,
    "numpy ids": lambda ids: np.int64(ids[0]) if len(ids) == 1 else np.array(ids),
    "dicts": lambda ids: {"token_ids": ids},
}


def one_by_one(ids: Sequence[int]) -> st.SearchStrategy[list[list[int]]]:
    """Each id by itself, or groups of all sizes."""
    alone = [[token_id] for token_id in ids]
    return st.one_of(st.just(alone), cuts(ids).map(lambda places: grouped(ids, places)))


def as_the_machine(
    backend: str,
    make: Callable[[], Machine],
    trail: Trail,
    outputs: Sequence[Sequence[int]],
    **options: Any,
) -> list[Chunk]:
    """The chunks of a stream over ``outputs``, which are what its machine gives.

    Once with a cold table, and once with a warm one.
    """
    for _ in range(ROUNDS):
        chunks: list[Chunk] = run(backend, laws.as_the_machine, make(), trail, outputs, **options)
        plain = {"is_plain": True, **options}
        assert chunks == run("asyncio", laws.as_the_machine, make(), trail, outputs, **plain)
    if options["chunk_by"] == "token":
        laws.one_chunk_a_token(chunks, trail)
    else:
        laws.one_chunk_an_output(chunks, trail, outputs)
    return chunks


Made = Callable[[Setup], Machine]


@given(case=CASES, data=st.data(), shape=st.sampled_from([*SHAPES]), covers=st.booleans())
def test_law_0_any_grouping_of_ids(
    make: Made, case: Case, data: st.DataObject, shape: str, covers: bool
) -> None:
    """And each id belongs to one chunk, in order, if chunks say which ids they cover."""
    setup, ids = setup_of(case.situation), case.situation.ids
    outputs = data.draw(one_by_one(ids), label="outputs")
    trail = trail_of(make(setup), ids)
    options = {"shape": SHAPES[shape], "chunk_by": case.chunk_by, "return_token_ids": covers}
    chunks = as_the_machine(case.backend, lambda: make(setup), trail, outputs, **options)
    laws.unread_ids(chunks, trail, outputs)
    if covers:
        laws.ids_belong_to_text(chunks, trail, ids)


@given(case=CASES, data=st.data(), bad=st.sampled_from([True, -1, 2**32]))
def test_law_16_a_bad_id_comes_after_the_text_before_it(
    make: Made, case: Case, data: st.DataObject, bad: int
) -> None:
    setup, ids = setup_of(case.situation), [*case.situation.ids]
    ids.insert(data.draw(st.integers(0, len(ids)), label="place"), bad)
    outputs = data.draw(one_by_one(ids), label="outputs")
    trail = trail_of(make(setup), ids)
    options = {"shape": SHAPES["ids"], "chunk_by": case.chunk_by}
    as_the_machine(case.backend, lambda: make(setup), trail, outputs, **options)


@given(
    case=CASES,
    data=st.data(),
    shape=st.sampled_from(["ids", "lists", "tuples", "arrays", "numpy ids"]),
)
def test_a_token_queue_changes_nothing(case: Case, data: st.DataObject, shape: str) -> None:
    """However much the reader finds waiting each time."""
    setup, ids = setup_of(case.situation), case.situation.ids
    outputs = [SHAPES[shape](part) for part in data.draw(one_by_one(ids), label="outputs")]
    run(case.backend, laws.fed, setup.decoder(), trail_of(setup.decoder(), ids), outputs)


@given(case=CASES, is_plain=st.booleans())
def test_law_16_a_broken_engine_is_resumed_anywhere(make: Made, case: Case, is_plain: bool) -> None:
    setup, ids = setup_of(case.situation), case.situation.ids
    trail = trail_of(make(setup), ids)
    options: dict[str, Any] = {"chunk_by": case.chunk_by, "is_plain": is_plain}
    kind: Any = type(make(setup))
    restore = partial(kind.restore, setup.tokenizer)
    for place in range(len(ids) + 1):
        run(case.backend, laws.resumes, make(setup), trail, ids, place, restore, **options)


@given(case=CASES, data=st.data())
def test_pending_token_ids_are_those_without_a_chunk(
    make: Made, case: Case, data: st.DataObject
) -> None:
    setup, ids = setup_of(case.situation), case.situation.ids
    place = data.draw(st.integers(0, len(ids)), label="place")
    options = {"chunk_by": case.chunk_by}
    run(case.backend, laws.ids_that_wait_are_named, make(setup), ids, place, **options)


BYTE_LEVEL = situations().filter(lambda situation: situation.decoder == "byte_level")


@given(situation=BYTE_LEVEL, kind=st.sampled_from(["StopSequenceDecoder", "DecodeStream"]))
def test_ids_belong_to_the_chunk_that_completes_their_text(situation: Situation, kind: str) -> None:
    """The oracle is the place of each token in the text by its span."""
    setup, ids = setup_of(situation), situation.ids
    trail = trail_of(MACHINES[kind](setup), ids)
    options = dict(setup.options)
    if options["unknown_ids"] == "error":  # it may be a stop id, which is not an error
        options["unknown_ids"] = "skip"
    recording = DecodeStream(setup.tokenizer, setup.prompt, spans=True, **options)
    recording.step_batch(ids[: trail.num_read])
    recording.flush()
    ends = [span.end for span in recording.take_spans()]
    chunks = run(
        "asyncio",
        laws.as_the_machine,
        MACHINES[kind](setup),
        trail,
        [[token_id] for token_id in ids],
        chunk_by="token",
        return_token_ids=True,
    )
    laws.ids_are_given_with_the_end_of_their_text(chunks, trail, ends)
