"""What the kit expects, on examples that can be read."""

from __future__ import annotations

import pytest

from streamdec import HuggingFaceTokenizer
from streamdec.testing import Subject, small_tokenizers
from streamdec.testing.expectations import (
    Certain,
    Cut,
    certain_text,
    cut_at_stop,
    waiting_for,
    whole_text,
)
from streamdec.testing.subjects import byte_level_tokenizer

SUBJECTS = {
    name: Subject(name, HuggingFaceTokenizer(tokenizer))
    for name, tokenizer in small_tokenizers().items()
}


def ids_of(subject: Subject, *pieces: str) -> list[int]:
    """Ids by name; one letter from U+0080 to U+00FF is the token of that byte."""
    found = []
    for piece in pieces:
        byte = piece.encode("latin-1")[0] if len(piece) == 1 and piece >= "\x80" else None
        token_id = subject.tokenizer.token_to_id(piece) if byte is None else subject.byte_ids[byte]
        assert token_id is not None
        found.append(token_id)
    return found


@pytest.mark.parametrize(
    ("name", "pieces", "at_least", "at_most"),
    [
        ("byte_level", [], "", ""),
        ("byte_level", ["the"], "the", "the"),
        ("byte_level", ["the", "\xe4", "\xbd"], "the", "the"),
        ("byte_level", ["\xe4", "\xbd", "\xa0"], "你", "你"),
        ("byte_level", ["\xe4", "the"], "\ufffdthe", "\ufffdthe"),
        ("byte_level", ["\xff"], "\ufffd", "\ufffd"),
        ("byte_level", ["\xe0", "\x80"], "\ufffd\ufffd", "\ufffd\ufffd"),
        ("byte_level", ["\xef", "\xbf"], "", ""),
        ("byte_fallback", ["the", "\xe4"], "the", "the"),
        ("byte_fallback", ["\u2581the"], "the", "the"),
        # One more bad byte, and the library replaces the whole run.
        ("byte_fallback", ["the", "\xe4", "\xbd", "\xa0"], "the", "the你"),
        ("byte_fallback", ["\xe4", "\xbd", "\xa0", "the"], "你the", "你the"),
        ("wordpiece", ["the", "##s"], "thes", "thes"),
    ],
)
def test_certain_text_has_the_least_and_the_most_text(
    name: str, pieces: list[str], at_least: str, at_most: str
) -> None:
    subject = SUBJECTS[name]
    found = certain_text(subject, ids_of(subject, *pieces), skip_special_tokens=True)
    assert found == Certain(at_least, at_most)


def test_a_token_that_breaks_a_run_of_bytes_does_not_continue_it() -> None:
    """Of a vocabulary whose only tokens with U+FFFD are bytes, one is among those tried."""
    small = SUBJECTS["byte_fallback"]
    subject = Subject("other", small.tokenizer)
    subject.apart.append(subject.byte_ids[0xE4])
    found = certain_text(subject, ids_of(subject, "\xe4", "\xbd", "\xa0"), skip_special_tokens=True)
    assert found == Certain("", "你")


@pytest.mark.parametrize(
    ("text", "stops", "cut"),
    [
        ("abc", [], None),
        ("abc", ["d"], None),
        ("abcabc", ["bc"], Cut(1, 3, "bc")),
        ("xabcdy", ["abcd", "bc"], Cut(2, 4, "bc")),
        ("a<END", ["END", "<END"], Cut(1, 5, "<END")),
        ("a<END", ["<END", "END"], Cut(1, 5, "<END")),
    ],
)
def test_cut_at_stop_returns_the_text_before_the_stop(
    text: str, stops: list[str], cut: Cut | None
) -> None:
    assert cut_at_stop(text, stops) == cut


@pytest.mark.parametrize(
    ("text", "stops", "waiting"),
    [
        ("abc", [], 0),
        ("abc", ["cd"], 1),
        ("abc", ["cd", "bcd"], 2),
        ("abc", ["abc"], 0),
        ("aab", ["aabaac"], 3),
        ("abab", ["ababac", "x"], 4),
    ],
)
def test_waiting_for_returns_the_length_of_a_possible_stop(
    text: str, stops: list[str], waiting: int
) -> None:
    assert waiting_for(text, stops) == waiting


def test_a_byte_level_tokenizer_of_any_tokens() -> None:
    tokens = [b"a", b"\xe4", b"", b"\xbd\xa0", b"a"]
    tokenizer, ids = byte_level_tokenizer(tokens, [b"<s>"])
    subject = Subject("made", HuggingFaceTokenizer(tokenizer))
    given = [ids[token] for token in (b"a", b"\xe4", b"<s>", b"", b"\xbd\xa0")]
    assert whole_text(subject, given, skip_special_tokens=True) == "a你"
    assert whole_text(subject, given, skip_special_tokens=False) == "a\ufffd<s>\ufffd\ufffd"


def test_the_small_tokenizers_have_ids_of_every_kind() -> None:
    for name, subject in SUBJECTS.items():
        assert subject.words, name
        assert subject.skipped, name
        assert subject.unknown, name
        assert subject.is_foreseeable, name
        assert len(subject.byte_ids) == (0 if name == "wordpiece" else 256)
