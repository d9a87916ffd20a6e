"""Tokens that are always the same bytes, the table behind them, and how a prompt is read."""

from __future__ import annotations

import pytest

from streamdec.errors import TokenIdError
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    DecodingRule,
    Joined,
    Metaspace,
    RawBytes,
    TextRules,
)
from tests.core.rule_tables import Table, Touched

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
    assert table.machine.prime(table.ids[:-1]) == (None, pending)


def test_unknown_ids_in_a_prompt_interrupt_a_character_only_if_they_are_shown() -> None:
    assert Table(RawBytes(), b"\xe4").machine.prime([0, 9]) == (None, b"\xe4")
    table = Table(RawBytes(), b"\xe4", unknown_ids="replace")
    assert table.machine.prime([0, 9]) == (None, b"")


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
    table.machine.prime(prompt)
    assert prompt.touched <= 8


@pytest.mark.parametrize("rule", RULES)
def test_a_prompt_of_skipped_tokens_alone_is_read_once(rule: DecodingRule | TextRules) -> None:
    table = Table(rule, "a", special=["<s>"])
    prompt = Touched([1] * LONG)
    assert table.machine.prime(prompt) == (table.machine.start, b"")
    assert prompt.touched == LONG


@pytest.mark.parametrize("rule", RULES)
def test_bad_ids_among_those_looked_at_are_named(rule: DecodingRule | TextRules) -> None:
    table = Table(rule, "a", special=["<s>"])
    for bad in (-1, 2**32, True, 1.0, None):
        with pytest.raises(TokenIdError, match="prompt token"):
            table.machine.prime([1, bad, 1])  # type: ignore[list-item]
