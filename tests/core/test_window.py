"""The windowed route, over tokenizers that only have ``decode``: what its laws do not draw.

The laws are in ``tests/laws.py``. These tokenizers are unlike those of any library.
"""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamdec import DecodeStream, HuggingFaceTokenizer, MockTokenizer, StopSequenceDecoder
from streamdec.core.window import MAX_WINDOW
from streamdec.errors import RewriteError, SnapshotError, TokenIdError
from tests.support.snapshots import resealed
from tests.support.wrappers import Bare, Decoding
from tests.support.zoo import UNCOMPILED, ZOO

Decode = Callable[[Sequence[int]], str]


def streamed(decode: Decode, token_ids: Sequence[int], prompt: Sequence[int] = ()) -> str:
    stream = DecodeStream(Decoding(decode), prompt)
    return "".join(stream.step_batch(token_ids)) + stream.flush()


PIECES = [b"a", b" b", b"", b"\xe4", b"\xbd\xa0c", "\ufffd".encode()]
WORD, SPACED, EMPTY, LEAD, INSIDE, GENUINE = range(len(PIECES))


def pieces(token_ids: Sequence[int]) -> str:
    return b"".join(PIECES[token_id] for token_id in token_ids).decode("utf-8", "replace")


# --- what is withheld -----------------------------------------------------------------------------


def test_the_last_three_replacement_characters_are_withheld_until_the_next_token() -> None:
    """A black box does not say whether U+FFFD is text or an unfinished character."""
    stream = DecodeStream(Decoding(pieces))
    assert stream.step_batch([GENUINE, WORD, GENUINE]) == ["", "\ufffda", ""]
    assert stream.flush() == "\ufffd"
    stream.reset()
    assert stream.feed([GENUINE] * 10) == "\ufffd" * 7
    assert stream.flush() == "\ufffd" * 3


# --- what is remembered of the tokens before ------------------------------------------------------


def spaces_between(token_ids: Sequence[int]) -> str:
    """A word's space is left out if nothing precedes; 0 is a word without letters, others none."""
    words = [token_id for token_id in token_ids if token_id in (0, 1)]
    return "".join(" " * bool(place) + "a" * word for place, word in enumerate(words)).rstrip(" ")


@pytest.mark.parametrize("silent", [[], [7] * 20, [7, 8, 9] * 40, [0] * 200])
def test_a_first_token_without_text_is_remembered(silent: list[int]) -> None:
    for before in ([0, *silent], [*silent, 0]):
        assert streamed(spaces_between, [1], before).endswith(" a")
        assert streamed(spaces_between, [*before, 1]).endswith(" a")


def test_a_window_of_many_ids_without_text_is_cut() -> None:
    silent = range(2, 200)
    assert streamed(lambda ids: "a" * [*ids].count(1), [*silent, 1, *silent, 1]) == "aa"


def without_repeats(token_ids: Sequence[int]) -> str:
    """As in CTC: an id repeated in a row counts once, 0 is a blank, and 7 is skipped."""
    kept = [token_id for token_id in token_ids if token_id != 7]
    return "a" * [token_id for token_id, _ in itertools.groupby(kept)].count(1)


HALF = MAX_WINDOW // 2
SIZES = (0, 1, *range(HALF - 1, HALF + 2), *range(MAX_WINDOW - 2, MAX_WINDOW + 2), 200)
Sequences = Callable[[int], list[list[int]]]
REMEMBERED: dict[str, tuple[Decode, Sequences]] = {
    "0 is a space, of which the text loses the first; 7 is skipped": (
        lambda ids: (" " * [*ids].count(0))[1:],
        lambda size: [[0, 0, *[7] * size, 0], [0, *[7] * size, 0, 0], [*[7] * size, 0, 0, 0]],
    ),
    "a blank separates two tokens": (
        without_repeats,
        lambda size: [
            [*[1] * repeats, *(blanks * size)[-size:], 1]
            for blanks in ([0], [0, 7], [7, 7, 7, 0])
            for repeats in (1, MAX_WINDOW)
        ],
    ),
    "the first token of a text loses its space, as those of many tokenizers do": (
        lambda ids: pieces(ids).removeprefix(" "),
        lambda size: [
            [WORD, *[INSIDE] * size, SPACED],
            [*[EMPTY] * size, WORD, SPACED],
            [LEAD, *[EMPTY] * size, INSIDE, SPACED],
        ],
    ),
}


@pytest.mark.parametrize("name", REMEMBERED)
def test_a_window_that_was_cut_has_the_context_of_the_next_token(name: str) -> None:
    decode, sequences = REMEMBERED[name]
    for ids in itertools.chain.from_iterable(map(sequences, SIZES)):
        assert streamed(decode, ids) == decode(ids)
        for split in {1, len(ids) - 1}:
            before = decode(ids[:split])
            assert streamed(decode, ids[split:], ids[:split]) == decode(ids).removeprefix(before)


def test_a_prompt_that_is_cut_inside_a_character_is_cut_behind_it() -> None:
    """The first byte of a character, so many silent ids that it is cut off, and another one."""
    library = ZOO["byte_fallback_replaces"]()

    def decode(token_ids: Sequence[int]) -> str:
        return library.decode([*token_ids], skip_special_tokens=False)

    unknown = library.get_vocab_size() + 1
    for count in range(50, 70):
        prompt = [204, 178, *[unknown] * count, 249, 168, 161, 137]
        assert decode(prompt) == "é😀"
        assert streamed(decode, [], prompt) == ""


@pytest.mark.parametrize(("spaces", "withheld"), [(1, 1), (6, 6), (9, 9), (40, 10)])
def test_a_prompts_last_spaces_are_withheld_one_for_each_pattern(
    spaces: int, withheld: int
) -> None:
    tokenizer = MockTokenizer.from_tokens([b"x", b" ", b"."])
    for decoder in (Bare(tokenizer), tokenizer):
        stream = DecodeStream(decoder, [0, *[1] * spaces], clean_up_tokenization_spaces=True)
        assert stream.step(2) == " " * (withheld - 1) + "."


# --- text that is taken back ----------------------------------------------------------------------


def test_text_that_is_taken_back_raises_and_the_state_stays() -> None:
    stream = DecodeStream(Decoding(lambda ids: "ab"[2 in ids] * len(ids)))
    assert stream.step(0) == "a"
    before = stream.snapshot()
    for _ in range(2):
        with pytest.raises(RewriteError, match=r"changed text .* 'a' became 'bb'"):
            stream.step(2)
    assert stream.snapshot() == before
    assert stream.step(0) == "a"


def test_text_that_flush_would_reject_is_not_held() -> None:
    """The text changes once a 2 comes, but its end may yet become a character."""
    stream = DecodeStream(Decoding(lambda ids: "ab"[2 in ids] * len(ids) + "\ufffd" * (2 in ids)))
    assert stream.step_batch([0, 2]) == ["a", ""]
    assert (stream.held, stream.pending_text) == (b"", "")
    with pytest.raises(RewriteError):
        stream.flush()
    assert not stream.finished


def test_a_snapshot_while_text_is_missing() -> None:
    """Two line feeds are not text: the output comes back with the next id."""
    tokenizer = Decoding(lambda ids: "".join(map(chr, ids)).replace("\n\n", ""))
    stream, texts = DecodeStream(tokenizer), []
    for token_id in map(ord, "a\n\n\nb"):
        texts.append(stream.step(token_id))
        stream = DecodeStream.restore(tokenizer, stream.snapshot())
    assert texts == ["a", "\n", "", "", "b"]


@pytest.mark.parametrize("before", [[LEAD], [GENUINE], [WORD], [WORD, LEAD]])
@pytest.mark.parametrize("ids", [[EMPTY], [EMPTY, EMPTY, EMPTY], [WORD, EMPTY]])
def test_a_stream_does_not_grow(before: list[int], ids: list[int]) -> None:
    stream = StopSequenceDecoder(Decoding(pieces), stop="aab")
    stream.feed(before)
    for _ in range(600):
        stream.feed(ids)
        assert len(stream._since) <= 5 * MAX_WINDOW
    twin = StopSequenceDecoder.restore(Decoding(pieces), stream.snapshot())
    assert twin.feed([INSIDE]) == stream.feed([INSIDE])


def test_a_state_has_no_more_ids_than_a_window() -> None:
    tokenizer = Decoding(lambda ids: "a" * len(ids))
    snapshot = DecodeStream(tokenizer).snapshot()
    for size in (MAX_WINDOW, MAX_WINDOW + 1):
        place = {"clean": [[[0] * size, [], "a" * size, [], 0], 0, 0, []]}
        if size == MAX_WINDOW:
            assert DecodeStream.restore(tokenizer, resealed(snapshot, place)).held == b""
            continue
        with pytest.raises(SnapshotError, match="expected a window of ids"):
            DecodeStream.restore(tokenizer, resealed(snapshot, place))


def test_the_given_text_of_a_state_is_that_of_its_window() -> None:
    tokenizer = Decoding(lambda ids: "".join(map(chr, ids)).replace("\n\n", ""))
    snapshot = DecodeStream(tokenizer).snapshot()
    for given, is_right in (("ab", True), ("abc", True), ("a", False), ("", False), ("b", False)):
        place = {"clean": [[[97, 98], [], given, [], 0], 0, 0, []]}
        if is_right:
            restored = DecodeStream.restore(tokenizer, resealed(snapshot, place))
            assert restored.step(99) == ("" if given == "abc" else "c")
            continue
        with pytest.raises(SnapshotError, match="the given text is not that of the window"):
            DecodeStream.restore(tokenizer, resealed(snapshot, place))


# --- what a tokenizer's decode takes, and what it raises ------------------------------------------

WORDS = ["", "Hello", " world", " .", " don", " n't", "é", "<s>"]


class SlowTokenizer:
    """The ``decode`` of a slow tokenizer of transformers, which cleans up by default."""

    def __init__(self) -> None:
        self.cleaned: set[bool] = set()

    def decode(
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **_kwargs: Any,
    ) -> str:
        assert isinstance(token_ids, list)
        self.cleaned.add(bool(clean_up_tokenization_spaces is None or clean_up_tokenization_spaces))
        words = [WORDS[i] for i in token_ids if not (skip_special_tokens and WORDS[i] == "<s>")]
        text = "".join(words)
        return text.replace(" .", ".").replace(" n't", "n't") if True in self.cleaned else text


class Strict(SlowTokenizer):
    """The same, without other keywords."""

    def decode(  # type: ignore[override]
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        return super().decode(token_ids, skip_special_tokens, clean_up_tokenization_spaces)


SENTENCE = [7, 1, 2, 4, 5, 7, 2, 3]


@pytest.mark.parametrize("kind", [SlowTokenizer, Strict])
def test_a_slow_tokenizer_streams_with_its_clean_up_off(kind: type[SlowTokenizer]) -> None:
    tokenizer = kind()
    stream = DecodeStream(tokenizer)
    assert stream.route == "window"
    texts = stream.step_batch(SENTENCE)
    assert texts == ["", "Hello", " world", " don", " n't", "", " world", " ."]
    assert stream.flush() == ""
    assert tokenizer.cleaned == {False}


def test_clean_up_is_done_on_the_stream() -> None:
    stream = DecodeStream(SlowTokenizer(), clean_up_tokenization_spaces=True)
    assert stream.feed(SENTENCE) + stream.flush() == "Hello world donn't world."
    assert DecodeStream(SlowTokenizer(), [1], clean_up_tokenization_spaces=True).step(3) == "."


def test_unknown_ids_can_raise_if_the_tokenizer_has_piece() -> None:
    tokenizer = HuggingFaceTokenizer(UNCOMPILED["regex_after_fuse"]())
    known = tokenizer.token_to_id("l")
    assert known is not None
    stream = DecodeStream(tokenizer, unknown_ids="error")
    with pytest.raises(TokenIdError) as raised:
        stream.step_batch([known, 99_999])
    assert (raised.value.token_id, raised.value.index, stream.num_tokens) == (99_999, 1, 1)
    skipping = DecodeStream(tokenizer)
    assert skipping.step_batch([known, 99_999, known]) == ["l", "", "l"]
    assert skipping.unknown_tokens == 1


def test_what_decode_raises_comes_out_of_steps_and_not_of_members() -> None:
    """A KeyError of ``decode``, for example, is not an unknown id."""
    error: list[Exception] = []

    def decode(token_ids: Sequence[int]) -> str:
        if error and len(token_ids) == 2:
            raise error[0]
        return "\ufffd" * len(token_ids) if len(token_ids) < 3 else "abc"

    stream = DecodeStream(Decoding(decode))
    assert stream.step_batch([0, 0]) == ["", ""]
    error.append(KeyError("d"))
    assert (stream.held, stream.pending_text) == (b"", "")
    assert "2 tokens" in repr(stream)
    with pytest.raises(KeyError, match="'d'"):
        stream.flush()
    fresh = DecodeStream(Decoding(decode))
    fresh.step(0)
    with pytest.raises(KeyError, match="'d'"):
        fresh.step(0)
    assert fresh.unknown_tokens == 0
    error.clear()
    assert stream.step(0) + stream.flush() == "abc"


# --- what is logged -------------------------------------------------------------------------------


class Slotted:
    """Takes no weak references; has three tokens."""

    __slots__ = ()

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "".join("abc"[token_id] for token_id in token_ids)

    def piece(self, token_id: int) -> str | None:
        return "abc"[token_id] if token_id < 3 else None


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages in the log, without the records, which would keep the tokenizer alive."""
    log, logger = io.StringIO(), logging.getLogger("streamdec")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(log)])
    return lambda: log.getvalue().splitlines()


@pytest.mark.parametrize(("kind", "lines"), [(Slotted, 2), (MockTokenizer, 1)])
def test_every_tokenizer_that_lacks_an_id_is_named_once(
    kind: type, lines: int, said: Callable[[], list[str]]
) -> None:
    """Each may have the ``id`` of the one before. A tokenizer without rules is named, too."""
    for number in range(1, 20):
        tokenizer = kind()
        for _ in range(1 if kind is Slotted else 3):
            stream = DecodeStream(tokenizer)
            stream.step_batch([70_000, 1, 70_001])
            assert stream.unknown_tokens == 2
        found = said()
        assert len(found) == number * lines
        assert found[-1].endswith(
            "has no id 70000; unknown ids are counted in unknown_tokens, and not logged again"
        )
        assert lines == 1 or "has no known rules: its streams decode a window" in found[-2]
        del stream, tokenizer
