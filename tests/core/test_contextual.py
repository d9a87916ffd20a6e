"""Machines whose tokens depend on their neighbours, on a few telling pieces each.

The oracle of every case is the library's own decoder (see ``Table.check``); the test has the token
at which each part of its text is output.
"""

from __future__ import annotations

import pytest

from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    Concatenation,
    DecodingRule,
    Joined,
    Metaspace,
    RawBytes,
    TextRules,
    WordPiece,
)
from tests.core.rule_tables import Table

# --- the first token and later ones ---------------------------------------------------------------

FIRST_THEN_LATER: list[tuple[DecodingRule, list[str], list[str]]] = [
    (Joined(), ["a", "b", "", "c"], ["a", " b", " ", " c"]),
    (Joined(), ["", "b"], ["", " b"]),
    (Metaspace(), ["▁a▁b", "▁c", "▁"], ["ab", " c", " "]),
    (Metaspace(), ["▁", "▁a"], ["", " a"]),
    (Metaspace(prepend=False), ["▁a▁b", "▁c"], [" a b", " c"]),
    (Metaspace("_"), ["_a", "▁b_"], ["a", "▁b "]),
    (WordPiece(), ["##a", "##b", "c"], ["##a", "b", " c"]),
    (WordPiece(), ["a", ".", "?", "n't", "##'s"], ["a", ".", "?", "n't", "'s"]),
    (WordPiece(), ["do not", "do not ", "'"], ["do not", " don't ", " '"]),
    (WordPiece(), ["x 's", "y n't ."], ["x's", " yn't."]),
    (WordPiece("_", cleanup=False), ["_a", "_.", ".", "##b"], ["_a", ".", " .", " ##b"]),
]


def test_a_skipped_special_is_not_the_first_token() -> None:
    Table(Metaspace(), "<s>", "▁a", "<s>", "▁b", special=["<s>"]).check(b"", b"a", b"", b" b", b"")


def test_a_replaced_unknown_id_counts_as_a_token() -> None:
    table = Table(Metaspace(), "▁a")
    data, state = table.machine.advance(table.machine.start, table.machine.replacement)
    assert data.decode() == "\ufffd"
    assert table.step(state, 0)[0] == b" a"


# --- the last token -------------------------------------------------------------------------------

WORD_SUFFIX: list[tuple[DecodingRule, list[str], list[str]]] = [
    (BPESuffix(), ["i</w>", "j", "k</w>", "l</w>"], ["i", " j", "k", " l", ""]),
    (BPESuffix(), ["</w>", "a"], ["", " a", ""]),
    (BPESuffix(), ["a", "</w>j"], ["a", "", "j"]),
    (BPESuffix(), ["a</w>b</w>", "c"], ["a", " b c", ""]),
    (BPESuffix(), ["a</w>b</w>"], ["a", "b"]),
    (BPESuffix("|"), ["a||", "|", "b"], ["a", "  ", " b", ""]),
    (BPESuffix(), ["a </w>"], ["a ", ""]),
]


# --- repetitions ----------------------------------------------------------------------------------

COLLAPSE: list[tuple[DecodingRule, list[str], list[str]]] = [
    (CTC(), ["a", "a", "b", "a"], ["a", "", "b", "a"]),
    (CTC(), ["a", "<pad>", "a", "<pad>", "<pad>"], ["a", "", "a", "", ""]),
    (CTC(), ["a", "|", "|", "b"], ["a", " ", "", "b"]),
    (CTC(), ["a", "|.", " .", " 's|"], ["a", " .", ".", "'s "]),
    (CTC("e", "_", cleanup=False), ["xex", "_", "ae", "a"], ["xx", "_", "a", "a"]),
    (CTC(metaspace=Metaspace()), ["▁a", "▁a", "▁b"], ["a", "", " b"]),
    (CTC(metaspace=Metaspace()), ["<pad>", "▁a"], ["", "a"]),
    (CTC(metaspace=Metaspace()), ["▁", "▁a"], ["", " a"]),
]


def test_a_skipped_pad_does_not_part_two_equal_tokens() -> None:
    Table(CTC(), "a", "<pad>", "a", special=["<pad>"]).check(b"a", b"", b"", b"")


def test_replaced_unknown_ids_are_not_repetitions() -> None:
    table = Table(CTC(), "a")
    machine = table.machine
    state, texts = machine.start, []
    for _ in range(2):
        data, state = machine.advance(state, machine.replacement)
        texts.append(data.decode())
    assert texts == ["\ufffd", "\ufffd"]


# --- the beginning of the text --------------------------------------------------------------------


def stripped(count: int, char: str = " ", rule: DecodingRule | None = None) -> TextRules:
    return TextRules(rule or Concatenation(), strip_left=(char, count))


STRIPPED: list[tuple[TextRules, list[str], list[str]]] = [
    (stripped(1), [" a", " b"], ["a", " b", ""]),
    (stripped(1), ["  a"], [" a", ""]),
    (stripped(2), [" ", "", " ", " "], ["", "", "", " ", ""]),
    (stripped(2), [" ", "a", " "], ["", "a", " ", ""]),
    (stripped(9), [" ", " "], ["", "", ""]),
    (stripped(1, "▁"), ["▁a", "▁b"], ["a", "▁b", ""]),
    (stripped(1, rule=Joined()), ["", "a", "b"], ["", "a", " b", ""]),
    (stripped(1, rule=BPESuffix()), ["</w>", "</w>"], ["", "", ""]),
    (stripped(1, rule=BPESuffix()), ["</w>", "a", "</w>"], ["", "a", "", ""]),
]


CASES: list[tuple[DecodingRule | TextRules, list[str], list[str]]] = [
    *((rule, pieces, [*outputs, ""]) for rule, pieces, outputs in FIRST_THEN_LATER + COLLAPSE),
    *WORD_SUFFIX,
    *STRIPPED,
]


@pytest.mark.parametrize(("rule", "pieces", "outputs"), CASES)
def test_each_token_completes_its_part_of_the_library_s_text(
    rule: DecodingRule | TextRules, pieces: list[str], outputs: list[str]
) -> None:
    Table(rule, *pieces).check(*(text.encode() for text in outputs))


def test_a_character_to_strip_may_come_in_bytes() -> None:
    rules = TextRules(ByteFallback(), strip_left=("é", 2))
    both = ["<0xC3>", "<0xA9>", "<0xC3>", "x"]
    table = Table(rules, *both, byte_fallback="eager")
    assert table.outputs() == [b"", b"", b"", b"\xc3x", b""]
    table = Table(TextRules(RawBytes(), strip_left=("é", 1)), b"\xc3", b"\xc3\xa9")
    table.check(b"", b"\xc3\xc3\xa9", b"")
    table = Table(TextRules(RawBytes(), strip_left=("é", 1)), b"\xc3")
    table.check(b"", b"\xc3")


def test_the_strip_holds_what_may_still_be_stripped() -> None:
    table = Table(TextRules(RawBytes(), strip_left=("é", 1)), b"\xc3")
    [(_, state)] = table.steps()
    assert table.machine.held(state) == b"\xc3"
