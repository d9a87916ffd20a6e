"""Which machine serves which rule."""

from __future__ import annotations

import pytest

from streamdec import HuggingFaceTokenizer
from streamdec.core import utf8
from streamdec.core.decode_options import ByteFallbackMode
from streamdec.core.rules.base import FixedBytes, TokenRule
from streamdec.core.rules.byte_fallback import ExactRuns, RunsThenSpaces
from streamdec.core.rules.compile import compile_rule
from streamdec.core.rules.contextual import (
    Collapse,
    FirstThenLater,
    LeadingStrip,
    WordSuffix,
)
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
    WordPiece,
)
from tests.core.rule_tables import Table
from tests.support.zoo import UNCOMPILED

MACHINES: list[tuple[DecodingRule | TextRules, ByteFallbackMode, type[TokenRule]]] = [
    (RawBytes(), "exact", FixedBytes),
    (ByteLevel(), "exact", FixedBytes),
    (Concatenation(), "exact", FixedBytes),
    (ByteFallback(), "eager", FixedBytes),
    (ByteFallback(), "exact", ExactRuns),
    (ByteFallback(Metaspace()), "eager", RunsThenSpaces),
    (ByteFallback(Metaspace()), "exact", RunsThenSpaces),
    (Joined(), "exact", FirstThenLater),
    (Metaspace(), "exact", FirstThenLater),
    (WordPiece(), "exact", FirstThenLater),
    (BPESuffix(), "exact", WordSuffix),
    (CTC(), "exact", Collapse),
    (TextRules(RawBytes(), strip_left=(" ", 1)), "exact", LeadingStrip),
    (TextRules(RawBytes(), strip_left=("", 0)), "exact", FixedBytes),
]


@pytest.mark.parametrize(("rules", "byte_fallback", "machine"), MACHINES)
def test_each_rule_compiles_to_its_class(
    rules: DecodingRule | TextRules, byte_fallback: ByteFallbackMode, machine: type[TokenRule]
) -> None:
    assert type(Table(rules, "a", byte_fallback=byte_fallback).machine) is machine


def test_eager_byte_runs_replace_each_bad_byte() -> None:
    assert Table(ByteFallback(), "a", byte_fallback="eager").machine.errors == utf8.PER_BYTE
    assert Table(ByteLevel(), "a").machine.errors == utf8.PER_PART


@pytest.mark.parametrize("name", UNCOMPILED)
def test_a_tokenizer_without_rules_has_none(name: str) -> None:
    tokenizer = HuggingFaceTokenizer(UNCOMPILED[name]())
    compiled = compile_rule(tokenizer, skip_special_tokens=True, byte_fallback="eager")
    assert compiled is None
