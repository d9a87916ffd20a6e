"""The bytes of a piece in the middle of a text.

In: a tokenizer's rules and a piece. Out: bytes. Changes at the ends of a text, and to repeated
pieces, are not handled here. The library ``tokenizers`` computes the text.
"""

from __future__ import annotations

import re

from tokenizers import decoders

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
from streamdec.tokenizers._common import BYTE_OF_LETTER, guarded

# The pieces that the decoder ``ByteFallback`` parses as bytes, with ``u8::from_str_radix``.
_BYTE = re.compile(r"<0x(?:[0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")


def bytes_of(rules: TextRules, piece: str | bytes) -> bytes:
    """Return the bytes of ``piece`` in a text, with other text before and after it."""
    if isinstance(piece, bytes):
        return piece
    rule = rules.rule
    if isinstance(rule, ByteLevel):
        return _byte_level(piece)
    if isinstance(rule, ByteFallback) and _BYTE.fullmatch(piece):
        return bytes([int(piece[3:5], 16)])
    text = _text_of(rule, piece)
    for replace in rules.replaces:
        text = text.replace(replace.pattern, replace.content)
    return text.encode()


def _byte_level(piece: str) -> bytes:
    try:
        return bytes(map(BYTE_OF_LETTER.__getitem__, piece))
    except KeyError:
        return piece.encode()


def _text_of(rule: DecodingRule, piece: str) -> str:
    """Decode ``piece`` after an empty piece, and before one if the rule looks ahead."""
    if isinstance(rule, (RawBytes, Concatenation)):
        return piece
    if isinstance(rule, Joined):
        return rule.separator + piece
    around = ["", piece, ""] if isinstance(rule, BPESuffix) else ["", piece]
    return guarded(decoders.Sequence(library_stages(rule)).decode, around)


def library_stages(rule: DecodingRule) -> list[decoders.Decoder]:
    """Return the decoders of ``tokenizers`` for ``rule``.

    Raises TypeError if there is none.
    """
    match rule:
        case ByteLevel():
            return [decoders.ByteLevel()]
        case Concatenation():
            return [decoders.Fuse()]
        case Metaspace(replacement, prepend):
            scheme = "always" if prepend else "never"
            return [decoders.Metaspace(replacement, prepend_scheme=scheme)]
        case ByteFallback(metaspace):
            return [decoders.ByteFallback(), *_metaspace_stages(metaspace)]
        case WordPiece(prefix, cleanup):
            return [decoders.WordPiece(prefix, cleanup=cleanup)]
        case BPESuffix(suffix):
            return [decoders.BPEDecoder(suffix)]
        case CTC(pad, delimiter, cleanup, metaspace):
            return [decoders.CTC(pad, delimiter, cleanup), *_metaspace_stages(metaspace)]
    raise TypeError(f"not a DecodingRule of text: {rule!r}")


def _metaspace_stages(metaspace: Metaspace | None) -> list[decoders.Decoder]:
    return [] if metaspace is None else library_stages(metaspace)
