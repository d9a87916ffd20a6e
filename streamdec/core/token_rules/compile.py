"""Which machine follows a tokenizer's rules."""

from __future__ import annotations

from streamdec.core import utf8
from streamdec.core.options import ByteFallbackMode
from streamdec.core.token_rules.base import FixedBytes, TokenRule, byte_level, text_bytes
from streamdec.core.token_rules.byte_fallback import ExactRuns, RunsThenSpaces, fallback_bytes
from streamdec.core.token_rules.contextual import (
    Collapse,
    FirstThenLater,
    LeadingStrip,
    WordSuffix,
    joined_forms,
    metaspace_forms,
    wordpiece_forms,
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
    TableDecoder,
    TextRules,
    WordPiece,
)

__all__ = ["compile_rule"]


def compile_rule(
    decoder: TableDecoder, *, skip_special_tokens: bool, byte_fallback: ByteFallbackMode
) -> TokenRule | None:
    """The machine for ``decoder``'s rules; None if they cannot be followed byte by byte."""
    rules: TextRules | None = decoder.rules
    if rules is None:
        return None
    machine = _machine(decoder, rules.rule, skip_special_tokens, byte_fallback)
    char, count = rules.strip_left
    return LeadingStrip(machine, char.encode(), count) if count else machine


def _machine(
    decoder: TableDecoder, rule: DecodingRule, skip: bool, byte_fallback: ByteFallbackMode
) -> TokenRule:
    match rule:
        case RawBytes() | Concatenation():
            return FixedBytes(decoder, text_bytes, skip_special_tokens=skip)
        case ByteLevel():
            return FixedBytes(decoder, byte_level, skip_special_tokens=skip)
        case Joined():
            return FirstThenLater(
                decoder, lambda piece: joined_forms(rule, piece), skip_special_tokens=skip
            )
        case Metaspace():
            return FirstThenLater(
                decoder, lambda piece: metaspace_forms(rule, piece), skip_special_tokens=skip
            )
        case WordPiece():
            return FirstThenLater(
                decoder, lambda piece: wordpiece_forms(rule, piece), skip_special_tokens=skip
            )
        case BPESuffix():
            return WordSuffix(decoder, rule.suffix, skip_special_tokens=skip)
        case CTC():
            return Collapse(decoder, rule, skip_special_tokens=skip)
        case ByteFallback(metaspace=None):
            if byte_fallback == "exact":
                return ExactRuns(decoder, skip_special_tokens=skip)
            return FixedBytes(
                decoder, fallback_bytes, skip_special_tokens=skip, errors=utf8.PER_BYTE
            )
        case ByteFallback(metaspace=metaspace):
            assert metaspace is not None
            return RunsThenSpaces(decoder, metaspace, byte_fallback, skip_special_tokens=skip)
