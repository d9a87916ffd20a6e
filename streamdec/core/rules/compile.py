"""Which TokenRule follows the decoding rules of a tokenizer."""

from __future__ import annotations

from streamdec.core import utf8
from streamdec.core.decode_options import ByteFallbackMode
from streamdec.core.rules.base import FixedBytes, TokenRule, byte_level, text_bytes
from streamdec.core.rules.byte_fallback import ExactRuns, RunsThenSpaces, fallback_bytes
from streamdec.core.rules.contextual import (
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


def compile_rule(
    decoder: TableDecoder, *, skip_special_tokens: bool, byte_fallback: ByteFallbackMode
) -> TokenRule | None:
    """Return the TokenRule for the rules of ``decoder``; None if it has no rules."""
    rules: TextRules | None = decoder.rules
    if rules is None:
        return None
    token_rule = _token_rule(decoder, rules.rule, skip_special_tokens, byte_fallback)
    char, count = rules.strip_left
    return LeadingStrip(token_rule, char.encode(), count) if count else token_rule


def _token_rule(
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
