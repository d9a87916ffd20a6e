"""The laws, on mocks, on one small tokenizer for each way of joining tokens, and on real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import HuggingFaceTokenizer, MockTokenizer
from streamdec.protocols import ByteFallback
from tests import laws
from tests.strategies import Subject, cuts, token_ids
from tests.support.zoo import ZOO, shared_tokenizers

CHARACTERS = "aé你😀 \ufffd\u0301".encode()
TOKENS = [
    *(bytes([byte]) for byte in (0x41, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC3, 0xE0, 0xE4, 0xED, 0xF0,
    0xF4, 0xFF)),
    *(CHARACTERS[start:end] for start in range(len(CHARACTERS)) for end in range(start + 2, start +
    5)), b"",
    b" the",
    b"<s>",
    b"</s>",
]  # fmt: skip
FALLBACK_TOKENS = [token for token in TOKENS if token.isascii() or len(token) == 1]
MOCKS: dict[str, Callable[[], MockTokenizer]] = {
    "mock_words": MockTokenizer,
    "mock_bytes": lambda: MockTokenizer.from_tokens(TOKENS, special_ids=[len(TOKENS) - 1]),
    "mock_fallback": lambda: MockTokenizer.from_tokens(
        FALLBACK_TOKENS,
        special_ids=[3],
        decoder="byte_fallback",
    ),
}
SHARED: dict[str, Path] = {path.parent.name: path for path in shared_tokenizers()}


@cache
def subject_named(name: str) -> Subject:
    if name in MOCKS:
        return Subject(name, MOCKS[name]())
    return Subject(name, HuggingFaceTokenizer(ZOO[name]() if name in ZOO else SHARED[name]))


@pytest.fixture(params=[*MOCKS, *ZOO, *SHARED])
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_named(request.param)


@pytest.fixture(params=["mock_bytes", "mock_fallback"])
def made(request: pytest.FixtureRequest) -> Subject:
    return subject_named(request.param)


def skipping() -> st.SearchStrategy[bool]:
    return st.booleans()


def draw_ids(data: st.DataObject, subject: Subject, **options: Any) -> list[int]:
    return data.draw(token_ids(subject, **options), label="ids")


def exact(subject: Subject) -> dict[str, Any]:
    """The options under which the whole decode is the library's own for any ids."""
    rules = subject.tokenizer.rules
    runs = rules is not None and isinstance(rules.rule, ByteFallback)
    return {"byte_runs": "exact"} if runs else {}


@given(data=st.data(), skip=skipping(), runs=st.sampled_from(["eager", "exact"]))
def test_law_0_chunk_invariance(
    subject: Subject, data: st.DataObject, skip: bool, runs: str
) -> None:
    prompt, ids = draw_ids(data, subject, max_size=8), draw_ids(data, subject)
    places = data.draw(cuts(ids))
    laws.chunk_invariance(subject, prompt, ids, places, skip_special_tokens=skip, byte_runs=runs)


@given(data=st.data(), max_entries=st.sampled_from([1, 2, 3, 7]))
def test_law_0_cache_state(subject: Subject, data: st.DataObject, max_entries: int) -> None:
    laws.small_caches(subject, draw_ids(data, subject), max_entries)


@given(data=st.data(), skip=skipping())
def test_law_1_emission(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject, max_size=8)
    laws.emission(subject, ids, skip_special_tokens=skip, **exact(subject))


@given(data=st.data())
def test_law_1_and_2_emission_of_bytes(made: Subject, data: st.DataObject) -> None:
    tokens = TOKENS if made.name == "mock_bytes" else FALLBACK_TOKENS
    laws.emission_of_bytes(made, draw_ids(data, made), tokens)


@given(data=st.data(), skip=skipping())
def test_laws_3_5_6_7_whole_decode(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject)
    laws.whole_decode(subject, ids, skip_special_tokens=skip, **exact(subject))


@given(data=st.data())
def test_law_6_eager_runs(data: st.DataObject) -> None:
    names = [name for name in ZOO if name.startswith("byte_fallback") and "metaspace" not in name]
    subject = subject_named(data.draw(st.sampled_from(names)))
    laws.sentencepiece_runs(subject, draw_ids(data, subject))


@given(data=st.data(), skip=skipping())
def test_law_6_clean_up(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject)
    laws.clean_up(subject, ids, skip_special_tokens=skip, **exact(subject))


@given(
    data=st.data(), skip=skipping(), clean=st.booleans(), runs=st.sampled_from(["eager", "exact"])
)
def test_law_4_prompt(
    subject: Subject, data: st.DataObject, skip: bool, clean: bool, runs: str
) -> None:
    prompt, ids = draw_ids(data, subject), draw_ids(data, subject, max_size=12)
    laws.prompt_continues(
        subject,
        prompt,
        ids,
        skip_special_tokens=skip,
        byte_runs=runs,
        clean_up_tokenization_spaces=clean,
    )


@given(data=st.data())
def test_law_8_specials(subject: Subject, data: st.DataObject) -> None:
    laws.skipped_specials_leave_no_trace(subject, draw_ids(data, subject))


@given(data=st.data())
def test_law_14_finality(subject: Subject, data: st.DataObject) -> None:
    laws.finality(subject, draw_ids(data, subject))


@given(data=st.data(), skip=skipping())
def test_law_15_bounds(subject: Subject, data: st.DataObject, skip: bool) -> None:
    laws.bounded(subject, draw_ids(data, subject), skip_special_tokens=skip)


@given(data=st.data(), bad=st.sampled_from(laws.BAD_IDS))
def test_law_16_nothing_lost(subject: Subject, data: st.DataObject, bad: object) -> None:
    before, after = draw_ids(data, subject, max_size=10), draw_ids(data, subject, max_size=5)
    laws.nothing_lost(subject, before, bad, after)


@given(data=st.data(), skip=skipping())
def test_law_16_unknown_ids(subject: Subject, data: st.DataObject, skip: bool) -> None:
    laws.unknown_ids(subject, draw_ids(data, subject), skip_special_tokens=skip)


@given(data=st.data(), skip=skipping())
def test_law_17_anchors(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject)
    if laws.traceable(subject):
        if laws.gives_bytes_at_once(subject):
            laws.anchors(subject, ids, data.draw(cuts(ids)), skip_special_tokens=skip)
        prompt = draw_ids(data, subject, max_size=5)
        laws.anchors_cover(subject, prompt, ids, skip_special_tokens=skip, **exact(subject))


@given(data=st.data(), skip=skipping())
def test_sequences(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids, more = draw_ids(data, subject), draw_ids(data, subject, max_size=6)
    length = data.draw(st.integers(0, len(ids)))
    laws.sequences(subject, ids, length, more, skip_special_tokens=skip)


def test_subjects_are_what_the_laws_are_about() -> None:
    """The draws reach partial characters, specials and unknown ids where a tokenizer has them."""
    assert all(subject_named(name).unknown for name in [*MOCKS, *ZOO])
    byte_level = subject_named("byte_level")
    assert len(byte_level.byte_ids) == 256
    assert byte_level.special != byte_level.usual[:1]


def everything() -> Iterator[str]:
    yield from [*MOCKS, *ZOO, *SHARED]


def test_every_compiled_tokenizer_takes_the_bytes_route() -> None:
    for name in everything():
        assert laws.stream_of(subject_named(name)).route == "bytes", name
