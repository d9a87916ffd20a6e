"""Which TokenRule follows the decoding rules of a tokenizer."""

from __future__ import annotations

from functools import partial

from streamdec.core import utf8
from streamdec.core.decode_options import ByteFallbackMode, Options
from streamdec.core.rules import byte_fallback as fallback
from streamdec.core.rules import contextual as context
from streamdec.core.rules.base import Elements, FixedBytes, TokenRule, byte_level, text_bytes
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


def compile_rule(decoder: TableDecoder, rules: TextRules, options: Options) -> TokenRule:
    """Return the TokenRule for the ``rules`` of ``decoder``."""
    token_rule = rule_for(rules.rule, options.byte_fallback)
    token_rule.elements = Elements(decoder, token_rule, options)
    char, count = rules.strip_left
    return context.LeadingStrip(token_rule, char.encode(), count) if count else token_rule


def rule_for(rule: DecodingRule, byte_fallback: ByteFallbackMode) -> TokenRule:
    """Return the TokenRule for ``rule``, without the elements of a tokenizer."""
    is_eager = byte_fallback == "eager"
    match rule:
        case RawBytes() | Concatenation():
            return FixedBytes(text_bytes)
        case ByteLevel():
            return FixedBytes(byte_level)
        case Joined():
            return context.FirstThenLater(partial(context.joined_forms, rule))
        case Metaspace():
            return context.FirstThenLater(partial(context.encoded_metaspace, rule))
        case WordPiece():
            return context.FirstThenLater(partial(context.wordpiece_forms, rule))
        case BPESuffix(suffix):
            return context.WordSuffix(partial(context.suffixed, suffix))
        case CTC():
            return context.Collapse(partial(context.repeatable, rule))
        case ByteFallback(Metaspace() as metaspace):
            prepare = fallback.byte_or_bytes
            runs = (fallback.EagerRuns if is_eager else fallback.ExactRuns)(prepare)
            return fallback.RunsThenSpaces(prepare, metaspace, runs)
        case ByteFallback():
            if is_eager:
                return FixedBytes(fallback.fallback_bytes, utf8.PER_BYTE)
            return fallback.ExactRuns(fallback.byte_or_bytes)
