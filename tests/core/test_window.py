"""The window: how much it decodes, what it withholds, and what it does when text is taken back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamdec.core.decode_options import DEFAULT_OPTIONS
from streamdec.core.window import MAX_WINDOW, WindowState, WindowTable
from streamdec.errors import RewriteError
from tests.support.zoo import ZOO

PIECES = [
    b"a",
    b" b",
    b"",
    b"\xe4",
    b"\xbd",
    b"\xa0",
    b"\xbd\xa0c",
    b"\xff",
    "你".encode(),
    "\ufffd".encode(),
]
EMPTY, LEAD, TRAIL, WORD, SPACED = 2, 3, 4, 0, 1
UNKNOWN = 99


class Recording:
    """Decodes ``PIECES``, unknown ids to nothing, and notes how many ids it was given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, token_ids: Sequence[int]) -> str:
        self.sizes.append(len(token_ids))
        known = [PIECES[i] for i in token_ids if i < len(PIECES)]
        return b"".join(known).decode("utf-8", "replace")


def window_over(decode: Callable[[Sequence[int]], str]) -> WindowTable:
    tokenizer: Any = SimpleNamespace(decode=lambda ids, **_: decode(ids))
    return WindowTable(tokenizer, DEFAULT_OPTIONS)


def run(
    decode: Callable[[Sequence[int]], str], token_ids: Sequence[int]
) -> tuple[str, WindowState]:
    window = window_over(decode)
    text, memory = "", window.prime(())
    for token_id in token_ids:
        more, memory = window.step(memory, token_id)
        text += more
    return text, memory


runs = st.lists(st.tuples(st.integers(0, len(PIECES) - 1), st.integers(1, 80)), max_size=6).map(
    lambda parts: [token_id for token_id, length in parts for _ in range(length)]
)


def test_a_genuine_replacement_character_is_output_with_the_next_token() -> None:
    """A black box does not say whether U+FFFD is text or an unfinished character."""
    window = window_over(Recording())
    first, memory = window.step(window.prime(()), 9)
    second, memory = window.step(memory, WORD)
    assert (first, second) == ("", "\ufffda")
    _, memory = window.step(memory, 9)
    assert window.flush(memory) == "\ufffd"


def test_at_most_three_replacement_characters_are_withheld() -> None:
    text, memory = run(Recording(), [9] * 10)
    assert text == "\ufffd" * 7
    assert window_over(Recording()).flush(memory) == "\ufffd" * 3


def spaces_between(token_ids: Sequence[int]) -> str:
    """A word's space is left out if nothing precedes; 0 is a word without letters, others none."""
    words = [token_id for token_id in token_ids if token_id in (0, 1)]
    return "".join(" " * bool(place) + "a" * word for place, word in enumerate(words))


@pytest.mark.parametrize("silent", [[], [7] * 20, [7, 8, 9] * 40, [0] * 200])
def test_a_first_token_without_text_is_remembered(silent: list[int]) -> None:
    def decode(token_ids: Sequence[int]) -> str:
        return spaces_between(token_ids).rstrip(" ")

    window = window_over(decode)
    for before in ([0, *silent], [*silent, 0]):
        assert window.step(window.prime(before), 1)[0].endswith(" a")
        text, memory = run(decode, before)
        assert (text + window.step(memory, 1)[0]).endswith(" a")


@pytest.mark.parametrize("count", [0, 1, 30, 31, 32, 62, 63, 64, 200])
def test_spaces_that_a_first_token_loses_are_found_in_a_prompt(count: int) -> None:
    """0 is a space, of which the text loses the first; 7 is skipped."""

    def decode(token_ids: Sequence[int]) -> str:
        return (" " * [*token_ids].count(0))[1:]

    window = window_over(decode)
    for prompt in ([0, 0, *[7] * count], [0, *[7] * count, 0], [*[7] * count, 0, 0]):
        memory = window.prime(prompt)
        assert window.flush(memory) == ""
        assert window.step(memory, 0)[0] == " "


def without_repeats(token_ids: Sequence[int]) -> str:
    """As in CTC: an id repeated in a row counts once, 0 is a blank, and 7 is skipped."""
    kept = [token_id for token_id in token_ids if token_id != 7]
    return "a" * [token_id for token_id, _ in itertools.groupby(kept)].count(1)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 62, 63, 64, 65, 200])
@pytest.mark.parametrize("blanks", [[0], [7, 0], [0, 7], [7, 7, 7, 0]])
@pytest.mark.parametrize("repeats", [1, 32, 64])
def test_a_blank_that_separates_two_tokens_is_remembered(
    repeats: int, blanks: list[int], count: int
) -> None:
    before = [*[1] * repeats, *(blanks * count)[-count:]]
    expected = "a" * (2 if 0 in before else 1)
    assert without_repeats([*before, 1]) == expected
    text, memory = run(without_repeats, [*before, 1])
    window = window_over(without_repeats)
    assert text + window.flush(memory) == expected
    after = window.step(window.prime(before), 1)[0]
    assert len(after) == len(expected) - 1


INSIDE = 6
"""Begins inside a character, so that no context may begin with it."""


@given(ids=runs, prompt=runs)
@example(ids=[*[EMPTY] * (MAX_WINDOW - 1), WORD, WORD], prompt=[])
@example(ids=[WORD, *[INSIDE] * MAX_WINDOW], prompt=[])
@example(ids=[EMPTY] * (MAX_WINDOW // 2 - 1), prompt=[LEAD, *[TRAIL] * (MAX_WINDOW // 2)])
def test_no_decode_sees_more_than_the_window(ids: list[int], prompt: list[int]) -> None:
    decode = Recording()
    window = window_over(decode)
    memory = window.prime(prompt)
    for token_id in ids:
        _, memory = window.step(memory, token_id)
    window.flush(memory)
    assert max(decode.sizes, default=0) <= MAX_WINDOW


def test_a_window_that_was_cut_still_has_context_for_the_next_token() -> None:
    """The first token of a text loses its space, as those of many tokenizers do."""

    def decode(token_ids: Sequence[int]) -> str:
        return Recording()(token_ids).removeprefix(" ")

    for size in (0, 1, 4, *range(MAX_WINDOW - 3, MAX_WINDOW + 3), 130, 200):
        ids = [WORD, *[INSIDE] * size, SPACED]
        text, memory = run(decode, ids)
        assert text + window_over(decode).flush(memory) == decode(ids)


def taking_back(ids: Sequence[int]) -> str:
    """``a`` until a 2 comes, then ``b``."""
    return ("b" if 2 in ids else "a") * len(ids)


def test_text_that_is_taken_back_raises_and_the_state_stays() -> None:
    window = window_over(taking_back)
    text, memory = window.step(window.prime(()), 0)
    before = window.dump(memory)
    for _ in range(2):
        with pytest.raises(RewriteError, match=r"changed text .* 'a' became 'bb'"):
            window.step(memory, 2)
    assert text == "a"
    assert window.dump(memory) == before
    assert window.step(memory, 0)[0] == "a"


def test_a_state_survives_json_while_text_is_missing() -> None:
    """Two line feeds are not text: the output comes back with the next id."""
    window = window_over(lambda ids: "".join(map(chr, ids)).replace("\n\n", ""))
    memory, texts = window.prime(()), []
    for token_id in map(ord, "a\n\n\nb"):
        text, memory = window.step(memory, token_id)
        texts.append(text)
        assert window.load(json.loads(json.dumps(window.dump(memory)))) == memory
    assert texts == ["a", "\n", "", "", "b"]


def test_a_state_has_no_more_ids_than_a_window() -> None:
    window = window_over(lambda ids: "a" * len(ids))
    text = "a" * MAX_WINDOW
    window.load([[0] * MAX_WINDOW, [], text, [], 0])
    with pytest.raises(ValueError, match="expected a window of ids"):
        window.load([[0] * (MAX_WINDOW + 1), [], text + "a", [], 0])


def test_a_prompt_that_is_cut_inside_a_character_is_cut_behind_it() -> None:
    """The first byte of a character, so many silent ids that it is cut off, and another one."""
    library = ZOO["byte_fallback_replaces"]()

    def decode(token_ids: Sequence[int]) -> str:
        return library.decode([*token_ids], skip_special_tokens=False)

    unknown = library.get_vocab_size() + 1
    for count in range(50, 70):
        prompt = [204, 178, *[unknown] * count, 249, 168, 161, 137]
        assert decode(prompt) == "é😀"
        assert window_over(decode).flush(window_over(decode).prime(prompt)) == ""
