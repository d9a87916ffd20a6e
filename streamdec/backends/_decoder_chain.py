"""Chains of ``tokenizers`` decoders, and the rules that turn pieces into text.

The parts of a chain (Sequences flattened)::

    (Replace | Strip)*  joining decoder  Fuse  Strip(start)  Replace(literal)*
    └─ in each piece ─┘ └─ TextRules.rule ─┘   └─ strip_left, replaces ───────┘

The last two need one text to work on: a ``Fuse`` before them, or ``ByteLevel``, which returns one
text. Any other chain has no ``rules``, and only the library's own ``decode`` gives its text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from tokenizers import decoders, pre_tokenizers

from streamdec.errors import TokenizerLibraryError
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    ByteLevel,
    Concatenation,
    DecodingRule,
    Joined,
    LiteralReplace,
    Metaspace,
    RawBytes,
    TextRules,
    WordPiece,
)
from streamdec.tokenizers._common import guarded, state_of

Stage = dict[str, Any]
"""One decoder of a chain, as the library's JSON has it."""


def stages_of(decoder: decoders.Decoder | None) -> list[Stage] | None:
    """Return the stages of ``decoder``; None without one.

    A decoder written in Python has the type ``"custom"``.
    """
    if decoder is None:
        return None
    try:
        return list(_flattened(state_of(decoder)))
    except TokenizerLibraryError:
        return [{"type": "custom"}]


def _flattened(stage: Stage) -> Iterator[Stage]:
    if stage["type"] != "Sequence":
        yield stage
        return
    for inner in stage["decoders"]:
        yield from _flattened(inner)


def compiled(stages: list[Stage] | None) -> tuple[list[Stage], TextRules | None]:
    """Return the stages for each piece, and the rules of the rest.

    Without rules it returns ``[], None``.
    """
    if stages is None:
        return [], TextRules(Joined(" "))
    each = list(takewhile(_is_element_wise, stages))
    rules = _rules(stages[len(each) :])
    return (each, rules) if rules else ([], None)


def _is_element_wise(stage: Stage) -> bool:
    # Strip with a stop is left out: it panics on a piece that is empty.
    return stage["type"] == "Replace" or _is_strip_left(stage)


def _is_strip_left(stage: Stage) -> bool:
    return bool(stage["type"] == "Strip" and stage["stop"] == 0)


def _rules(stages: list[Stage]) -> TextRules | None:
    rule, rest = _joining(stages)
    one_text = isinstance(rule, ByteLevel) or [stage["type"] for stage in rest[:1]] == ["Fuse"]
    if not one_text:
        return None if rest else TextRules(rule)
    return _with_whole_text(rule, [stage for stage in rest if stage["type"] != "Fuse"])


def _joining(stages: list[Stage]) -> tuple[DecodingRule, list[Stage]]:
    """Return the rule of the decoder that joins pieces, and the stages after it."""
    kinds = [stage["type"] for stage in stages[:2]]
    if kinds == ["ByteFallback", "Metaspace"]:
        return ByteFallback(metaspace=_metaspace(stages[1])), stages[2:]
    if kinds == ["CTC", "Metaspace"]:
        return _ctc(stages[0], _metaspace(stages[1])), stages[2:]
    if kinds and kinds[0] in _JOINING:
        return _JOINING[kinds[0]](stages[0]), stages[1:]
    return Concatenation(), stages


def _metaspace(stage: Stage) -> Metaspace:
    # "first" decodes as "always": both delete the space of the first piece.
    return Metaspace(stage["replacement"], prepend=stage["prepend_scheme"] != "never")


def _ctc(stage: Stage, metaspace: Metaspace | None = None) -> CTC:
    delimiter = stage["word_delimiter_token"]
    return CTC(stage["pad_token"], delimiter, cleanup=stage["cleanup"], metaspace=metaspace)


_JOINING: dict[str, Callable[[Stage], DecodingRule]] = {
    "ByteLevel": lambda _: ByteLevel(),
    "ByteFallback": lambda _: ByteFallback(),
    "Metaspace": _metaspace,
    "WordPiece": lambda stage: WordPiece(stage["prefix"], cleanup=stage["cleanup"]),
    "BPEDecoder": lambda stage: BPESuffix(stage["suffix"]),
    "CTC": _ctc,
}


def _with_whole_text(rule: DecodingRule, stages: list[Stage]) -> TextRules | None:
    """Return the rules with changes to the whole text; None if a stage is unknown."""
    strip_left = ("", 0)
    if stages and _is_strip_left(stages[0]):
        strip_left = (stages[0]["content"], stages[0]["start"])
        stages = stages[1:]
    if not all(map(_is_literal_replace, stages)):
        return None
    replaces = [LiteralReplace(stage["pattern"]["String"], stage["content"]) for stage in stages]
    return TextRules(rule, strip_left=strip_left, replaces=tuple(replaces))


def _is_literal_replace(stage: Stage) -> bool:
    return stage["type"] == "Replace" and bool(stage["pattern"].get("String"))


def rewriter(stages: list[Stage]) -> Callable[[str], str]:
    """Return a function that applies ``stages`` to one piece.

    One literal Replace is ``str.replace``. The library applies all other stages.
    """
    if not stages:
        return str
    if len(stages) == 1 and _is_literal_replace(stages[0]):
        pattern, content = stages[0]["pattern"]["String"], stages[0]["content"]
        return lambda text: text.replace(pattern, content)
    chain = decoders.Sequence([])
    chain.__setstate__(json.dumps({"type": "Sequence", "decoders": stages}).encode())
    return lambda text: guarded(chain.decode, [text])


def byte_names(rules: TextRules | None) -> list[str]:
    """Return the names of the tokens of one byte, as ``rules`` spell them."""
    if rules and isinstance(rules.rule, ByteLevel):
        return sorted(pre_tokenizers.ByteLevel.alphabet())
    if rules and isinstance(rules.rule, ByteFallback):
        return [f"<0x{byte:02X}>" for byte in range(256)]
    return []


# --- from rules to text ---------------------------------------------------------------------------


def whole_decoder(rules: TextRules) -> Callable[[Sequence[str | bytes]], str]:
    """Return a function from pieces to text: :func:`compiled` the other way round.

    Python joins bytes, and pieces with a separator. Decoders of the library do the rest.
    """
    character, count = rules.strip_left
    stages: list[decoders.Decoder] = [decoders.Strip(character, count, 0)] if count else []
    stages += [decoders.Replace(replace.pattern, replace.content) for replace in rules.replaces]
    rule = rules.rule
    if isinstance(rule, (RawBytes, Joined)):
        after = decoders.Sequence(stages)
        return lambda pieces: guarded(after.decode, [_joined(rule, pieces)])
    chain = decoders.Sequence([*_library_stages(rule), decoders.Fuse(), *stages])
    decode: Callable[..., str] = chain.decode
    return lambda pieces: guarded(decode, pieces)


def _joined(rule: RawBytes | Joined, pieces: Sequence[str | bytes]) -> str:
    if isinstance(rule, Joined):
        return rule.separator.join(map(str, pieces))
    return b"".join(map(as_bytes, pieces)).decode("utf-8", "replace")


def as_bytes(piece: str | bytes) -> bytes:
    """Return ``piece``, or its UTF-8."""
    return piece if isinstance(piece, bytes) else piece.encode()


def _library_stages(rule: DecodingRule | None) -> list[decoders.Decoder]:
    """Return the decoders of ``tokenizers`` for ``rule``, a rule for text."""
    match rule:
        case None | Concatenation():
            return []
        case ByteLevel():
            return [decoders.ByteLevel()]
        case Metaspace(replacement, prepend):
            scheme = "always" if prepend else "never"
            return [decoders.Metaspace(replacement, prepend_scheme=scheme)]
        case ByteFallback(metaspace):
            return [decoders.ByteFallback(), *_library_stages(metaspace)]
        case WordPiece(prefix, cleanup):
            return [decoders.WordPiece(prefix, cleanup=cleanup)]
        case BPESuffix(suffix):
            return [decoders.BPEDecoder(suffix)]
        case CTC(pad, delimiter, cleanup, metaspace):
            return [decoders.CTC(pad, delimiter, cleanup), *_library_stages(metaspace)]
    raise TypeError(f"not a DecodingRule of text: {rule!r}")
