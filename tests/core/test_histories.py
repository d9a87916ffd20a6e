"""What a stream says of its past depends on its ids only.

It depends neither on other streams of the tokenizer, nor on what is cached, nor on when it is
asked, nor on how the ids are grouped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec import Sequence as TokenSequence
from streamdec.core.definitions import SectionsOption
from streamdec.protocols import BPESuffix
from tests.stop_laws import chunks_of, everything
from tests.support.caches import small_caches

TOKENS = [
    *(b"a", b"b", b"!", b"<", b"t>", b"<t>", b"</t>", b"\nUs", b"er:", b" "),
    *("é".encode(), b"\xc3", b"\xa9", b"\xe4", b"\xbd\xa0", b"a\xe4\xbd", b"\xa0b", b"\xff"),
    *(b"", b"<s>", b"<e>"),
]
SPECIAL = [len(TOKENS) - 2, len(TOKENS) - 1]
UNKNOWN = 99
SECTIONS: SectionsOption = {"r": ("<t>", "</t>"), "q": (SPECIAL[0], SPECIAL[1])}
CONDITIONS = [
    StopConditions(),
    StopConditions(["\nUser:", "a<b"], [9]),
    StopConditions("éX", stop_token_ids=[SPECIAL[1]]),
    StopConditions(visible_stop=["ab!", "你b"], max_tokens=17),
    StopConditions("你!", ignore_stops_between=("<t>", "</t>"), min_tokens=3),
    StopConditions(stop_regex=r"(?<=a)b[!<]|\n\w", visible_stop_token_ids=[2]),
]
Make = Callable[[MockTokenizer], Any]


def tokenizer_of(rule: str) -> MockTokenizer:
    tokens = TOKENS if rule == "byte_level" else [t for t in TOKENS if t.isascii() or len(t) == 1]
    special = [tokens.index(TOKENS[each]) for each in SPECIAL]
    return MockTokenizer.from_tokens(tokens, special, rule)


def makes(chooser: random.Random) -> dict[str, Make]:
    """Ways of making a decoder."""
    conditions = chooser.choice(CONDITIONS)
    prompt = [chooser.randrange(len(TOKENS)) for _ in range(chooser.choice([0, 0, 3]))]
    options: dict[str, Any] = {
        "spans": chooser.random() < 0.5,
        "byte_fallback": chooser.choice(["eager", "eager", "exact"]),
        "unknown_ids": chooser.choice(["skip", "replace"]),
        "skip_special_tokens": chooser.random() < 0.7,
    }
    return {
        "plain": lambda tokenizer: DecodeStream(tokenizer, prompt, **options),
        "stops": lambda tokenizer: StopSequenceDecoder(tokenizer, conditions, prompt, **options),
        "sections": lambda tokenizer: StopSequenceDecoder(
            tokenizer, conditions, prompt, sections=SECTIONS, **options
        ),
    }


def ids_of(tokenizer: MockTokenizer, chooser: random.Random, size: int) -> list[int]:
    few = chooser.choices(range(tokenizer.vocab_size), k=4)
    every = [*range(tokenizer.vocab_size), *few * 3, UNKNOWN, *SPECIAL]
    return chooser.choices(every, k=size)


def trail(decoder: Any, ids: Sequence[int]) -> list[Any]:
    """All that can be observed after each token, and after the end."""
    found: list[Any] = []
    for token_id in ids:
        if decoder.finished:
            break
        given = decoder.step(token_id)
        found.append((given, everything(decoder), taken(decoder.fork()), decoder.snapshot()))
    found.append((decoder.flush(), everything(decoder), taken(decoder), decoder.snapshot()))
    return found


def taken(decoder: Any) -> Any:
    try:
        return decoder.take_spans()
    except ValueError:
        return None


@pytest.mark.filterwarnings("ignore:sections. the marker")
@pytest.mark.parametrize("rule", ["byte_level", "byte_fallback"])
@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(20, 150))]
)
def test_two_tokenizers_with_different_histories_say_the_same(rule: str, seed: int) -> None:
    chooser = random.Random(f"{rule} {seed}")
    fresh, used, cramped = (tokenizer_of(rule) for _ in range(3))
    for _ in range(4):
        ids = ids_of(used, chooser, 20)
        for name, make in makes(chooser).items():
            trail(make(used), ids)
            if name != "plain":
                chunks_of(make(used), ids)
    ids = ids_of(used, chooser, 24)
    for name, make in makes(chooser).items():
        expected = trail(make(fresh), ids)
        assert trail(make(used), ids) == expected, (name, ids)
        with small_caches(chooser.choice([1, 2, 5])):
            assert trail(make(cramped), ids) == expected, (name, ids)
        if name != "plain":
            given = [chunks_of(make(each), ids) for each in (tokenizer_of(rule), used, cramped)]
            assert given[0] == given[1] == given[2], (name, ids)


@pytest.mark.filterwarnings("ignore:sections. the marker")
@pytest.mark.parametrize("rule", ["byte_level", "byte_fallback", "suffix"])
@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(20, 150))]
)
def test_spans_at_random_times_are_the_spans_at_the_end(rule: str, seed: int) -> None:
    chooser = random.Random(f"{rule} {seed}")
    if rule == "suffix":
        texts = [b"a</w>", b"b", b"</w>", b"c</w>d", "é</w>".encode(), b"<s>", b"<e>"]
        tokenizer = MockTokenizer.from_tokens(texts, [5], BPESuffix())
    else:
        tokenizer = tokenizer_of(rule)
    ids = ids_of(tokenizer, chooser, 40)
    conditions = chooser.choice(CONDITIONS)
    sections = chooser.choice([None, {"r": ("<t>", "</t>")}])
    options: dict[str, Any] = {"spans": True, "sections": sections}
    along, at_end = (StopSequenceDecoder(tokenizer, conditions, **options) for _ in range(2))
    found = []
    for token_id in ids:
        if along.finished:
            break
        assert along.step(token_id) == at_end.step(token_id)
        if chooser.random() < 0.3:
            found += along.take_spans()
        if along.finish_reason is None and chooser.random() < 0.1:
            assert along.release() == at_end.release()
    assert along.flush() == at_end.flush()
    assert [*found, *along.take_spans()] == at_end.take_spans(), ids


# --- each fault that was found, with its minimal case


def test_ids_of_chunks_do_not_depend_on_another_stream() -> None:
    tokens = ["é".encode() + b"\xc3", b"\xa9", b"!"]
    found = []
    for before in ((), ([0, 1, 2],), ([0], [0, 1])):
        tokenizer = MockTokenizer.from_tokens(tokens)
        for ids in before:
            DecodeStream(tokenizer).step_batch(ids)
        decoder = StopSequenceDecoder(tokenizer, StopConditions("éX"))
        given = [(c.text, c.token_ids) for c in chunks_of(decoder, [0, 1, 2]) if c.text]
        found.append(given)
    assert found[0] == found[1] == found[2]
    assert "".join(text for text, _ in found[0]) == "éé!"
    assert [each for _, ids in found[0] for each in ids or ()] == [0, 1, 2]


def test_the_span_of_a_skipped_id_does_not_depend_on_when_it_is_taken() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"<s>", b"\xe4", b"\xbd", b"!"], [1])
    for ids in ([0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [1, 2, 4], [0, 1, 2]):
        along, at_end = (DecodeStream(tokenizer, spans=True) for _ in range(2))
        found = []
        for token_id in ids:
            along.step(token_id)
            at_end.step(token_id)
            found += along.take_spans()
        along.flush()
        at_end.flush()
        assert [*found, *along.take_spans()] == at_end.take_spans()


def test_a_replacement_character_is_in_the_section_before_its_marker() -> None:
    tokenizer = MockTokenizer.from_tokens(
        [b"\xf0", b"\x9f", b"<t>", b"</s>", b"a"], [2, 3], "byte_fallback"
    )
    decoder = StopSequenceDecoder(
        tokenizer, StopConditions(stop_token_ids=[3]), sections={"r": (2, 9)}
    )
    found = [part for each in (0, 1, 2, 3) for part in decoder.step(each).split() if part.text]
    assert {part.section for part in found} == {None}
    assert "".join(part.text for part in found) == "\ufffd\ufffd"
    assert decoder.finish_reason == "stop"


def test_a_sequence_that_was_released_twice_has_a_snapshot_that_restores() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd", b"\xa0"])
    for ids in ([0, 1], [1], [0], []):
        sequence = TokenSequence(tokenizer, ids)
        sequence.release()
        sequence.release()
        other = TokenSequence.restore(tokenizer, sequence.snapshot())
        assert (other.text, other.held) == (sequence.text, sequence.held)
        assert other.feed([2, 0]) == sequence.feed([2, 0])
        sequence.release()
        sequence.release()
        assert TokenSequence.restore(tokenizer, sequence.snapshot()).text == sequence.text


def test_a_marker_id_while_a_suffix_owes_a_space_is_not_forgotten_by_a_release() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a</w>", b"<t>", b"b"], [1], BPESuffix())
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = [decoder.step(0), decoder.step(1), decoder.release(), decoder.step(2), decoder.flush()]
    parts = [(part.section, part.text) for chunk in chunks for part in chunk.split() if part.text]
    assert parts[-1][0] == "r"
    assert "".join(text for section, text in parts if section is None).strip() == "a"


@pytest.mark.parametrize("pattern", [r"(?m)\Aab", r"(?m:\A)ab", r"(?m)(?<!\n)\Aab"])
def test_the_beginning_of_the_text_is_not_the_beginning_of_a_line(pattern: str) -> None:
    tokenizer = MockTokenizer.from_tokens([b"\n", b"a", b"b"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop_regex=pattern))
    assert decoder.feed([0, 1, 2]).finish_reason is None
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop_regex=pattern))
    assert decoder.feed([1, 2]).finish_reason == "stop"


@pytest.mark.parametrize("token_id", [0, 1])
def test_the_tokens_before_a_stop_of_the_first_token(token_id: int) -> None:
    tokenizer = MockTokenizer.from_tokens([b"ab", b"\xc3\xa9b"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions("b"))
    decoder.step(token_id)
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.token_index, decoder.match.tokens_before) == (
        1,
        0,
        0,
    )
