"""The laws, on mocks, on one small tokenizer for each way of joining tokens, and on real ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import HuggingFaceTokenizer, MockTokenizer, load_tokenizer
from streamdec.protocols import CTC, BPESuffix, ByteFallback, Joined, RawBytes, TextRules, WordPiece
from streamdec.protocols import Tokenizer as TokenizerOfOurs
from tests import decoder_laws, laws
from tests.strategies import Subject, cuts, exact, running_text, token_ids
from tests.support.files import BACKENDS, shared_files
from tests.support.wrappers import Bare
from tests.support.zoo import BYTE_PIECES, UNCOMPILED, ZOO, shared_tokenizers

Law = TypeVar("Law", bound=Callable[..., None])

CHARACTERS = "aé你😀 \ufffd\u0301".encode()
BYTES = b"A\x7f\x80\x9f\xa0\xbf\xc3\xe0\xe4\xed\xf0\xf4\xff"
TOKENS = [
    *(bytes([byte]) for byte in BYTES),
    *(CHARACTERS[i:j] for i in range(len(CHARACTERS)) for j in range(i + 2, i + 5)),
    *(b"", b" the", b"<s>", b"</s>"),
]
FALLBACK_TOKENS = [token for token in TOKENS if token.isascii() or len(token) == 1]
MOCKS: dict[str, Callable[[], MockTokenizer]] = {
    "mock_words": MockTokenizer,
    "mock_bytes": lambda: MockTokenizer.from_tokens(TOKENS, special_ids=[len(TOKENS) - 1]),
    "mock_fallback": lambda: MockTokenizer.from_tokens(
        FALLBACK_TOKENS, special_ids=[3], decoder="byte_fallback"
    ),
}
# What no decoder of the library's that is compiled removes.
STRIPPING: dict[str, Callable[[], MockTokenizer]] = {
    "mock_strip_runs": lambda: of_rule(TextRules(ByteFallback(), strip_left=("é", 2))),
    "mock_strip_suffix": lambda: of_rule(TextRules(BPESuffix(), strip_left=(" ", 1))),
    "mock_strip_bytes": lambda: MockTokenizer.from_tokens(
        [b"\xc3", b"\xa9", "é".encode(), b"a", b"", b"<s>"],
        special_ids=[5],
        decoder=TextRules(RawBytes(), strip_left=("é", 2)),
    ),
}


def of_rule(rule: TextRules) -> MockTokenizer:
    pieces = ["a", "</w>", "a</w>b", "b</w>", " ", " a", "é", "", "<s>", *BYTE_PIECES]
    return MockTokenizer.from_tokens([piece.encode() for piece in pieces], [8], rule)


FORMATS: dict[str, Callable[[], TokenizerOfOurs]] = {
    **BACKENDS,
    **{path.parent.name: partial(load_tokenizer, path) for path in shared_files()},
}
SMALL = [*MOCKS, *STRIPPING, *ZOO, *BACKENDS]
"""Tokenizers that are made here; all others are files beside the repository."""
SHARED: dict[str, Path] = {path.parent.name: path for path in shared_tokenizers()}

BARE = {f"bare {name}": name for name in [*MOCKS, *ZOO]}
# Where strip_stop leaves an empty text the library panics.
WINDOWED = [*BARE, *sorted(UNCOMPILED.keys() - {"strip_stop"})]


# For the windowed route a decoder is a black box: a few are enough for a quick run.
FEW_WINDOWED = [
    *("bare mock_bytes", "bare byte_level_fused", "bare byte_fallback_replaces", "bare ctc"),
    *("bare metaspace_always", "bare wordpiece_strip", "python_decoder", "strip_after_replace"),
]
# The rule of a tokenizer and what is done with the joined text make the states of a stream.
OF_EACH_RULE = [
    *(*MOCKS, *STRIPPING, "byte_level", "byte_level_fused", "byte_fallback_strip"),
    *("byte_fallback_replaces", "byte_fallback_metaspace", "metaspace_underscore"),
    *("wordpiece_strip", "bpe_suffix_short", "ctc", "no_decoder", "replaces_after_fuse"),
]


def _subjects(names: Iterable[str], quick: Iterable[str]) -> list[Any]:
    """The parameters of the fixture ``subject``: all ``names``, of which some are quick."""
    thorough = {*names} - {*quick}
    return [
        pytest.param(name, marks=pytest.mark.thorough) if name in thorough else name
        for name in names
    ]


@cache
def subject_named(name: str) -> Subject:
    if name in BARE:
        knowing = subject_named(BARE[name]).tokenizer
        return Subject(name, knowing, Bare(knowing))
    return new_subject(name)


def new_subject(name: str) -> Subject:
    """A subject for which nothing is cached."""
    mocks = {**MOCKS, **STRIPPING}
    if name in mocks:
        return Subject(name, mocks[name]())
    if name in FORMATS:
        return Subject(name, FORMATS[name]())
    build = ZOO.get(name) or UNCOMPILED.get(name)
    return Subject(name, HuggingFaceTokenizer(build() if build else SHARED[name]))


SUBJECTS = [*MOCKS, *STRIPPING, *ZOO, *FORMATS, *SHARED]


# The scope groups the tests by tokenizer, so that few of them are loaded by more than one worker.
@pytest.fixture(scope="module", params=_subjects(SUBJECTS, SMALL))
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_named(request.param)


@pytest.fixture(params=["mock_bytes", "mock_fallback"])
def made(request: pytest.FixtureRequest) -> Subject:
    return subject_named(request.param)


def of_each_rule(law: Law) -> Law:
    """``law``, in quick runs with fewer tokenizers."""
    subjects = _subjects(SUBJECTS, OF_EACH_RULE)
    return cast(Law, pytest.mark.parametrize("subject", subjects, indirect=True)(law))


def windowed(law: Law) -> Law:
    """``law``, with tokenizers that take the windowed route instead of compiled ones."""
    subjects = _subjects(WINDOWED, FEW_WINDOWED)
    return cast(Law, pytest.mark.parametrize("subject", subjects, indirect=True)(law))


def draw_ids(data: st.DataObject, subject: Subject, **options: Any) -> list[int]:
    return data.draw(token_ids(subject, **options), label="ids")


def draw_text(
    data: st.DataObject, subject: Subject, *, skip_special_tokens: bool = True, max_size: int = 20
) -> list[int]:
    text = running_text(subject, skip_special_tokens=skip_special_tokens, max_size=max_size)
    return data.draw(text, label="text")


OPTIONS = st.fixed_dictionaries(
    {
        "skip_special_tokens": st.booleans(),
        "byte_fallback": st.sampled_from(["eager", "exact"]),
        "unknown_ids": st.sampled_from(["skip", "replace"]),
        "clean_up_tokenization_spaces": st.booleans(),
    }
)


@of_each_rule
@given(data=st.data(), options=OPTIONS)
def test_law_0_chunk_invariance(
    subject: Subject, data: st.DataObject, options: dict[str, Any]
) -> None:
    prompt, ids = draw_ids(data, subject, max_size=8), draw_ids(data, subject)
    new = partial(laws.stream_of, subject, prompt, **options)
    decoder_laws.chunk_invariance(new, ids, data.draw(cuts(ids)))


@of_each_rule
@given(data=st.data(), max_entries=st.sampled_from([1, 2, 3, 7]))
def test_law_0_cache_state(subject: Subject, data: st.DataObject, max_entries: int) -> None:
    new = partial(laws.stream_of, subject)
    decoder_laws.with_small_caches(new, draw_ids(data, subject), max_entries)


@given(data=st.data(), skip=st.booleans(), runs=st.sampled_from(["eager", "exact"]))
def test_law_0_the_history_of_a_tokenizer(data: st.DataObject, skip: bool, runs: str) -> None:
    name = data.draw(st.sampled_from([*MOCKS, *ZOO]))
    fresh, used = (new_subject(name) for _ in range(2))
    prompt, ids = draw_ids(data, fresh, max_size=4), draw_ids(data, fresh, max_size=12)
    options: dict[str, Any] = {"skip_special_tokens": skip, "byte_fallback": runs}
    for _ in range(2):
        laws.stream_of(used, **options).step_batch(draw_ids(data, fresh, max_size=12))
    spans = laws.traceable(fresh)
    first, second = (laws.stream_of(each, prompt, spans=spans, **options) for each in (fresh, used))
    decoder_laws.the_same_spans_and_states(first, second, ids)


@of_each_rule
@given(data=st.data(), options=OPTIONS)
def test_law_0_with_and_without_stops(
    subject: Subject, data: st.DataObject, options: dict[str, Any]
) -> None:
    prompt, ids = draw_ids(data, subject, max_size=8), draw_ids(data, subject)
    laws.both_classes_output_the_same(subject, prompt, ids, **options)


@given(data=st.data(), skip=st.booleans())
def test_law_1_emission(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject, max_size=8)
    laws.emission(subject, ids, skip_special_tokens=skip, **exact(subject))


@given(data=st.data())
def test_law_1_and_2_emission_of_bytes(made: Subject, data: st.DataObject) -> None:
    tokens = TOKENS if made.name == "mock_bytes" else FALLBACK_TOKENS
    laws.emission_of_bytes(made, draw_ids(data, made), tokens)


@given(data=st.data(), skip=st.booleans())
def test_laws_3_5_6_7_full_decode(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject)
    laws.whole_decode(subject, ids, skip_special_tokens=skip, **exact(subject))


EAGER = [name for name in ZOO if name.startswith("byte_fallback") and "metaspace" not in name]


@pytest.mark.parametrize("subject", EAGER, indirect=True)
@given(data=st.data())
def test_law_6_eager_runs(subject: Subject, data: st.DataObject) -> None:
    laws.sentencepiece_runs(subject, draw_ids(data, subject))


@pytest.mark.parametrize("subject", EAGER, indirect=True)
def test_law_6_broken_characters(subject: Subject) -> None:
    parts = [*(subject.byte_ids[byte] for byte in "ไ".encode()), subject.words[0]]
    for ids in itertools.product(parts, repeat=3):
        laws.sentencepiece_runs(subject, ids)


@of_each_rule
@given(data=st.data(), skip=st.booleans())
def test_law_6_clean_up(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject)
    laws.clean_up(subject, ids, skip_special_tokens=skip, **exact(subject))


@given(data=st.data(), skip=st.booleans())
def test_law_4_prompt(subject: Subject, data: st.DataObject, skip: bool) -> None:
    prompt = draw_ids(data, subject, max_size=12)
    ids = draw_ids(data, subject, max_size=12)
    laws.prompt_continues(subject, prompt, ids, skip_special_tokens=skip, **exact(subject))


@pytest.mark.parametrize("name", ["byte_fallback_replaces", "byte_fallback_strip"])
def test_law_4_a_run_in_the_prompt_where_text_is_stripped_or_replaced(name: str) -> None:
    subject = subject_named(name)
    found = {subject.tokenizer.piece(token_id): token_id for token_id in subject.usual}
    pieces = [" ", "\u2581", "<0x20>", "<0x72>", "<0xC3>", "<0x9F>"]
    ids = [found[piece] for piece in pieces if piece in found]
    spaces = {found.get(piece) for piece in pieces[:3]}  # which a replacement would join
    assert len(ids) >= 5
    for prompt in itertools.chain.from_iterable(
        itertools.product(ids, repeat=n) for n in (1, 2, 3)
    ):
        for later in ([], *([token_id] for token_id in ids if token_id not in spaces)):
            stream = laws.stream_of(subject, prompt, byte_fallback="exact")
            text = "".join(stream.step_batch(later)) + stream.flush()
            assert subject.tokenizer.decode([*prompt, *later]).endswith(text)


@of_each_rule
@given(data=st.data(), options=OPTIONS)
def test_law_4_prompt_is_as_if_streamed(
    subject: Subject, data: st.DataObject, options: dict[str, Any]
) -> None:
    prompt, ids = draw_ids(data, subject), draw_ids(data, subject, max_size=12)
    laws.prompt_is_as_if_streamed(subject, prompt, ids, **options)


@of_each_rule
@given(data=st.data())
def test_law_8_specials(subject: Subject, data: st.DataObject) -> None:
    laws.skipped_specials_leave_no_trace(subject, draw_ids(data, subject))


@of_each_rule
def test_law_8_runs_of_skipped_specials(subject: Subject) -> None:
    """Between two words they leave no trace in the text, and the offsets are the reference's."""
    rules = subject.tokenizer.rules
    words = itertools.cycle(subject.words[:7])
    silent = [i for i in (*subject.skipped[:1], *subject.unknown[:1]) if subject.words]
    for token_id, length in itertools.product(silent, [*range(1, 13), 16, 17, 33, 40]):
        ids = [next(words), *[token_id] * length, next(words), token_id, next(words)]
        laws.whole_decode(subject, ids, **exact(subject))
        if not (rules and rules.replaces):  # then text is withheld that the window gives
            laws.offsets(subject, [], ids)
            laws.offsets(subject, ids[: length // 2], ids[length // 2 :])


@of_each_rule
@given(data=st.data())
def test_law_14_finality(subject: Subject, data: st.DataObject) -> None:
    decoder_laws.finality(partial(laws.stream_of, subject), draw_ids(data, subject))


@of_each_rule
@given(data=st.data(), skip=st.booleans())
def test_law_15_bounds(subject: Subject, data: st.DataObject, skip: bool) -> None:
    laws.bounded(subject, draw_ids(data, subject), skip_special_tokens=skip)


@of_each_rule
def test_law_15_silent_ids(subject: Subject) -> None:
    """In the middle of a character, and between words."""
    silent = [*subject.skipped[:2], *subject.unknown[:2]]
    for begun in ([], subject.ordinary[:1], subject.partial[:1]):
        decoder_laws.does_not_grow(partial(laws.stream_of, subject), begun, silent)


@of_each_rule
@given(data=st.data(), bad=st.sampled_from(laws.BAD_IDS))
def test_law_16_nothing_lost(subject: Subject, data: st.DataObject, bad: object) -> None:
    before, after = draw_ids(data, subject, max_size=10), draw_ids(data, subject, max_size=5)
    decoder_laws.nothing_lost(partial(laws.stream_of, subject), before, bad, after)


@pytest.mark.parametrize("subject", ["mock_bytes", "byte_fallback_replaces", "ctc"], indirect=True)
def test_law_16_bad_ids(subject: Subject) -> None:
    """At the start, at rest, inside a character; the equal integer is cached or is not."""
    for before in ([], subject.ordinary[:1], [subject.ordinary[0], *subject.partial[:1]]):
        laws.bad_ids_are_refused(subject, before)
        for token_id in (0, 1, 2):
            laws.stream_of(subject, before).step(token_id)
        laws.bad_ids_are_refused(subject, before)


@of_each_rule
@given(data=st.data(), skip=st.booleans())
def test_law_16_unknown_ids(subject: Subject, data: st.DataObject, skip: bool) -> None:
    options = {"skip_special_tokens": skip, **exact(subject)}
    ids = draw_ids(data, subject)
    laws.unknown_ids(subject, ids, **options)
    piece, rules = subject.tokenizer.piece, subject.tokenizer.rules
    replacements = [i for i in subject.usual if piece(i) in ("\ufffd", "\ufffd".encode())]
    if replacements and not isinstance(rules and rules.rule, (CTC, Joined, WordPiece)):
        laws.unknown_ids_replaced(subject, ids, replacements[0], **options)


@of_each_rule
@given(data=st.data(), skip=st.booleans())
def test_law_17_spans(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids = draw_ids(data, subject)
    if laws.traceable(subject):
        if laws.gives_bytes_at_once(subject):
            laws.token_spans(subject, ids, data.draw(cuts(ids)), skip_special_tokens=skip)
        prompt = draw_ids(data, subject, max_size=5)
        options = {"skip_special_tokens": skip, **exact(subject)}
        new = partial(laws.stream_of, subject, prompt, spans=True, **options)
        decoder_laws.spans_whenever_taken(new, ids, data.draw(cuts(ids)))
        laws.spans_cover(subject, prompt, ids, **options)


@of_each_rule
@given(data=st.data(), options=OPTIONS)
def test_law_18_release(subject: Subject, data: st.DataObject, options: dict[str, Any]) -> None:
    groups = [draw_ids(data, subject, max_size=5) for _ in range(3)]
    laws.release(subject, groups, **options)


@of_each_rule
@given(data=st.data(), skip=st.booleans())
def test_sequences(subject: Subject, data: st.DataObject, skip: bool) -> None:
    ids, more = draw_ids(data, subject), draw_ids(data, subject, max_size=6)
    length = data.draw(st.integers(0, len(ids)))
    laws.sequences(subject, ids, length, more, skip_special_tokens=skip)


# --- the windowed route ---------------------------------------------------------------------------


@windowed
@given(data=st.data(), skip=st.booleans())
def test_window_laws_0_and_16(subject: Subject, data: st.DataObject, skip: bool) -> None:
    prompt, ids = draw_ids(data, subject, max_size=8), draw_ids(data, subject)
    accepted = laws.refusals(subject, prompt, ids, skip_special_tokens=skip)
    new = partial(laws.stream_of, subject, prompt, skip_special_tokens=skip)
    decoder_laws.chunk_invariance(new, accepted, data.draw(cuts(accepted)))


@windowed
@given(data=st.data(), bad=st.sampled_from(laws.BAD_IDS))
def test_window_law_16_nothing_lost(subject: Subject, data: st.DataObject, bad: object) -> None:
    ids = laws.taken(subject, draw_text(data, subject, max_size=10))
    place = data.draw(st.integers(0, len(ids)))
    new = partial(laws.stream_of, subject)
    decoder_laws.nothing_lost(new, ids[:place], bad, ids[place : place + 5])


@windowed
@given(data=st.data(), skip=st.booleans())
def test_window_laws_4_and_6(subject: Subject, data: st.DataObject, skip: bool) -> None:
    prompt = draw_text(data, subject, skip_special_tokens=skip, max_size=6)
    ids = draw_text(data, subject, skip_special_tokens=skip)
    laws.window_continues(subject, [], ids, skip_special_tokens=skip)
    laws.window_continues(subject, prompt, ids, skip_special_tokens=skip)


@windowed
def test_window_law_6_runs_of_silent_ids(subject: Subject) -> None:
    """However long, they push nothing out of the window that is still needed."""
    words = [[i] for i in subject.words[:2]]
    bytes_of = [subject.byte_ids.get(byte, -1) for byte in "😀".encode()]
    spelled = [] if {-1, *subject.skipped} & {*bytes_of} else [bytes_of * 2]
    lengths = [50, *range(54, 58), *range(61, 67), 69]
    for length, part in itertools.product(lengths, [*words, *spelled]):
        silent = subject.unknown[:1] * length
        laws.window_continues(subject, [], [*silent, *part, *silent[:9], *part])
        laws.window_continues(subject, [*part, *silent], [*part, *silent[:9], *part])


@windowed
@given(data=st.data())
def test_window_law_14_finality(subject: Subject, data: st.DataObject) -> None:
    ids = laws.taken(subject, draw_text(data, subject))
    decoder_laws.finality(partial(laws.stream_of, subject), ids)


@windowed
@given(data=st.data(), skip=st.booleans())
def test_window_law_15_bounds(subject: Subject, data: st.DataObject, skip: bool) -> None:
    prompt, ids = draw_ids(data, subject), draw_ids(data, subject) * 4
    laws.bounded_window(subject, prompt, ids, skip_special_tokens=skip)


# --- the cases that were drawn --------------------------------------------------------------------


def test_a_law_that_fails_shows_what_it_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laws, "whole", lambda *_, **__: "expected")
    with pytest.raises(AssertionError, match="'Hello' == 'expected'"):
        laws.whole_decode(subject_named("mock_words"), [1])


def test_the_subjects_have_special_unknown_and_partial_ids() -> None:
    """The draws reach partial characters, specials and unknown ids where a tokenizer has them."""
    assert all(subject_named(name).unknown for name in [*MOCKS, *ZOO])
    byte_level = subject_named("byte_level")
    assert len(byte_level.byte_ids) == 256
    assert byte_level.special != byte_level.usual[:1]


def test_most_subjects_have_an_exact_oracle() -> None:
    """Of the small tokenizers only those are not in which patterns are searched for."""
    unjudged = {name for name in [*MOCKS, *ZOO] if not subject_named(name).is_foreseeable}
    searching = {
        name for name in ZOO if (rules := subject_named(name).tokenizer.rules) and rules.replaces
    }
    assert unjudged == {*searching, "mock_bytes", "mock_fallback"}


def test_every_compiled_tokenizer_takes_the_bytes_route(subject: Subject) -> None:
    assert laws.stream_of(subject).route == "bytes"


@windowed
def test_other_tokenizers_take_the_windowed_route(subject: Subject) -> None:
    assert laws.stream_of(subject).route == "window"
