"""Tokens that are always the same bytes, the table behind them, and how a prompt is read."""

from __future__ import annotations

import pytest

from streamdec import MockTokenizer
from streamdec.core.rules.base import byte_level, text_bytes
from streamdec.core.rules.compile import compile_rule
from streamdec.errors import TokenIdError
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    ByteLevel,
    Concatenation,
    DecodingRule,
    Joined,
    Metaspace,
    RawBytes,
    TextRules,
)
from tests.core.rule_tables import Table, Touched, through_json

# --- fixed bytes ----------------------------------------------------------------------------------


def test_raw_bytes_are_output_unchanged() -> None:
    Table(RawBytes(), b"a\xe4", b"\xbd", b"", b"\xa0", b"\xff").check(
        b"a\xe4", b"\xbd", b"", b"\xa0", b"\xff", b""
    )


def test_concatenated_text_is_output_as_utf8() -> None:
    Table(Concatenation(), "é", "", "Ġ").check("é".encode(), b"", "Ġ".encode(), b"")


def test_a_piece_of_the_byte_alphabet_is_its_bytes() -> None:
    Table(ByteLevel(), "Ġa", "ä", "½", "ł", "Ċ").check(b" a", b"\xe4", b"\xbd", b"\xa0", b"\n", b"")


def test_a_piece_with_one_letter_outside_the_alphabet_is_utf8_as_a_whole() -> None:
    Table(ByteLevel(), "Ġ你", "ä ", "\n").check("Ġ你".encode(), "ä ".encode(), b"\n", b"")


def test_the_byte_alphabet_has_every_byte_once() -> None:
    letters = [chr(code) for code in range(0x144) if len(byte_level(chr(code))) == 1]
    from_alphabet = {byte_level(letter) for letter in letters if letter > " " and letter != "\x7f"}
    assert from_alphabet == {bytes([byte]) for byte in range(256)}
    assert text_bytes("é") == "é".encode()
    assert text_bytes(b"\xff") == b"\xff"


def test_a_skipped_special_inside_a_character_contributes_nothing() -> None:
    table = Table(RawBytes(), b"\xe4", b"<s>", b"\xbd\xa0", special=[b"<s>"])
    table.check(b"\xe4", b"", b"\xbd\xa0", b"")


# --- the table ------------------------------------------------------------------------------------


class Asked(MockTokenizer):
    """Notes which ids it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def piece(self, token_id: int) -> str | bytes | None:
        self.asked.append(token_id)
        return super().piece(token_id)


def test_the_piece_of_an_id_is_read_once() -> None:
    tokenizer = Asked.from_tokens([b"a", b"b"])
    machine = compile_rule(tokenizer, skip_special_tokens=True, byte_fallback="eager")
    assert machine is not None
    assert tokenizer.asked == []
    for _ in range(3):
        machine.elements[1]
    assert tokenizer.asked == [1]


def test_unknown_ids_are_key_errors() -> None:
    table = Table(RawBytes(), b"a")
    for token_id in range(1, 1000):
        with pytest.raises(KeyError):
            table.step(None, token_id)


def test_a_special_token_is_skipped_only_if_asked_for() -> None:
    table = Table(RawBytes(), b"<s>", special=[b"<s>"])
    table.check(b"", b"")
    assert table.machine.elements[0] is None
    Table(RawBytes(), b"<s>", special=[b"<s>"], skip=False).check(b"<s>", b"")


@pytest.mark.parametrize("malformed", [False, 0, "", [], {}, [None]])
def test_the_only_state_of_fixed_bytes_is_null(malformed: object) -> None:
    table = Table(RawBytes(), b"a")
    assert through_json(table.machine, None) is None
    with pytest.raises(ValueError, match="expected null"):
        table.machine.load(malformed)


# --- prompts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "pending"),
    [
        ([], b""),
        ([b"\xe4"], b"\xe4"),
        ([b"\xe4", b"\xbd"], b"\xe4\xbd"),
        ([b"\xf0\x9f", b"<s>", b"\x99"], b"\xf0\x9f\x99"),
        ([b"\xe4", b"<s>", b"<s>"], b"\xe4"),
        ([b"\xe4", b"\xbd\xa0"], b""),
        ([b"\xbd\xbd\xbd\xe4"], b"\xe4"),
        ([b"\xed", b"\xa0"], b""),
        ([b"\xff"], b""),
    ],
)
def test_a_prompt_leaves_its_unfinished_character(prompt: list[bytes], pending: bytes) -> None:
    table = Table(RawBytes(), *prompt, b"<s>", special=[b"<s>"])
    assert table.machine.prime(table.ids[:-1], show_unknown=False) == (None, pending)


def test_unknown_ids_in_a_prompt_interrupt_a_character_only_if_they_are_shown() -> None:
    table = Table(RawBytes(), b"\xe4")
    assert table.machine.prime([0, 9], show_unknown=False) == (None, b"\xe4")
    assert table.machine.prime([0, 9], show_unknown=True) == (None, b"")


LONG = 100_000
RULES: list[DecodingRule | TextRules] = [
    RawBytes(),
    Joined(),
    Metaspace(),
    BPESuffix(),
    CTC(),
    ByteFallback(),
    ByteFallback(Metaspace()),
    TextRules(ByteFallback(), strip_left=(" ", 1)),
]


@pytest.mark.parametrize("rule", RULES)
def test_only_the_needed_end_of_a_long_prompt_is_read(
    rule: DecodingRule | TextRules,
) -> None:
    table = Table(rule, "a", "b", special=["<s>"])
    prompt = Touched([0, 1] * (LONG // 2))
    table.machine.prime(prompt, show_unknown=False)
    assert prompt.touched <= 8


@pytest.mark.parametrize("rule", RULES)
def test_a_prompt_of_skipped_tokens_alone_is_read_once(rule: DecodingRule | TextRules) -> None:
    table = Table(rule, "a", special=["<s>"])
    prompt = Touched([1] * LONG)
    assert table.machine.prime(prompt, show_unknown=False) == (table.machine.start, b"")
    assert prompt.touched == LONG


@pytest.mark.parametrize("rule", RULES)
def test_bad_ids_among_those_looked_at_are_named(rule: DecodingRule | TextRules) -> None:
    table = Table(rule, "a", special=["<s>"])
    for bad in (-1, 2**32, True, 1.0, None):
        with pytest.raises(TokenIdError, match="prompt token"):
            table.machine.prime([1, bad, 1], show_unknown=False)  # type: ignore[list-item]
