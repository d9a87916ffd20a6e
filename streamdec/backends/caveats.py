"""Caveats of a ``tokenizer.json``: where text or ids differ from expectations.

In: a loaded tokenizer. Out: a :class:`Caveat` for each kind found, which loading warns about. The
library itself does what the caveat says, and so does streamdec.

The library's rules are in ``added_vocabulary.rs`` and ``byte_level.rs`` of ``tokenizers`` 0.23.
Since 0.23.1 it decodes an added token with ``normalized=true`` as its normalized text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from tokenizers import AddedToken, Tokenizer

from streamdec.backends._decoder_chain import byte_names
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import TokenizerLibraryError, warn
from streamdec.protocols import ByteLevel
from streamdec.protocols import Tokenizer as AnyTokenizer
from streamdec.tokenizers._common import guarded

_SHOWN = 3
_TEXT = "a b"


@dataclass(frozen=True, slots=True)
class Caveat:
    """One kind of caveat, with the tokens concerned."""

    code: str
    """A stable code, such as ``"ADDED_TOKEN_NORMALIZED"``."""
    what: str
    """The property, as a phrase: "added tokens with …"."""
    follows: str
    """The consequence, a sentence."""
    tokens: Mapping[int, str] = field(default_factory=dict)
    """The tokens by their ids, ascending; empty if it concerns all tokens."""

    def __str__(self) -> str:
        listed = [f"{text!r:.40} ({i})" for i, text in self.tokens.items()]
        shown = ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")
        counted = f" ({len(listed):,}): {shown}" if listed else ""
        return f"{self.what}{counted}. {self.follows}"


def caveats_of(tokenizer: AnyTokenizer) -> tuple[Caveat, ...]:
    """Return all caveats, in a fixed order, in 0.2 ms for 1,000 added tokens."""
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return ()
    library, rules = tokenizer._tokenizer, tokenizer.rules
    # The tokenizer's own copy: the library would make new objects, 1 µs each.
    added = dict(sorted(tokenizer._added_tokens.items()))
    found = [*_normalized(tokenizer, library, added)]
    if rules is not None and isinstance(rules.rule, ByteLevel):
        letters = frozenset(byte_names(rules))
        strange = {i: token.content for i, token in added.items() if not token.content.isascii()}
        found.append(
            Caveat(
                "ADDED_TOKEN_OF_BYTE_LETTERS",
                "added tokens whose letters stand for bytes",
                "They are decoded as other text: the library decodes each letter as its byte, "
                "which is often not a character (U+FFFD), while llama.cpp prints the letters.",
                {i: text for i, text in strange.items() if letters.issuperset(text)},
            )
        )
    found.append(
        Caveat(
            "POST_PROCESSOR_ID",
            "tokens that the post_processor adds with other ids than the vocabulary has",
            "encode(..., add_special_tokens=True) gives these ids, as the library does.",
            _other_ids(library),
        )
    )
    return (*(caveat for caveat in found if caveat.tokens), *_of_decoder(library))


def warn_of_caveats(tokenizer: AnyTokenizer) -> None:
    """Warn (:class:`~streamdec.StreamdecWarning`) of each caveat."""
    for caveat in caveats_of(tokenizer):
        name = getattr(tokenizer, "name", type(tokenizer).__name__)
        warn(f"{name!r}: {caveat}")


def _normalized(
    tokenizer: AnyTokenizer, library: Tokenizer, added: Mapping[int, AddedToken]
) -> Iterator[Caveat]:
    """Yield tokens that are decoded as their normalized text, in two groups."""
    normalizer = library.normalizer
    if normalizer is None:
        return
    printed = {
        i: token.content
        for i, token in added.items()
        if token.normalized
        and guarded(normalizer.normalize_str, token.content) != token.content
        and library.id_to_token(i) != token.content
    }
    unskipped = {i for i in printed if added[i].special and not tokenizer.is_skipped(i)}
    what = "added tokens with normalized=true and a text that the normalizer changes"
    skipping = (
        ", and skip_special_tokens=True does not skip them. Set normalized to false in the file"
    )
    for of_these, kind, more in (
        (unskipped, "special ", skipping),
        (printed.keys() - unskipped, "", ""),
    ):
        if of_these:
            follows = (
                f"They are decoded as other text ({library.id_to_token(min(of_these))!r}){more}."
            )
            tokens = {i: printed[i] for i in sorted(of_these)}
            yield Caveat("ADDED_TOKEN_NORMALIZED", f"{kind}{what}", follows, tokens)


def _other_ids(library: Tokenizer) -> dict[int, str]:
    """Return the tokens around a text whose ids are not those of the table."""
    if library.post_processor is None:
        return {}
    state: dict[str, Any] = json.loads(guarded(library.post_processor.__getstate__))
    named: list[tuple[str, int]] = []
    for part in (state, *state.get("processors", ())):
        named += (tuple(part[key]) for key in ("sep", "cls") if key in part)
        for token in part.get("special_tokens", {}).values():
            named += zip(token["tokens"], token["ids"], strict=True)
    return {
        i: text for text, i in sorted(named, key=itemgetter(1)) if library.token_to_id(text) != i
    }


def _of_decoder(library: Tokenizer) -> Iterator[Caveat]:
    """Find a decoder that shows the signs by which the vocabulary spells a space."""
    try:
        text = library.decode(guarded(library.encode, _TEXT, add_special_tokens=False).ids)
    except TokenizerLibraryError:
        return
    if found := {"\u0120", "\u2581"}.intersection(text):
        yield Caveat(
            "DECODER_CANNOT_READ_VOCABULARY",
            f"a decoder that cannot read the vocabulary: it decodes {_TEXT!r} as {text!r:.40}",
            f"Each space is shown as {min(found)}, as in the library.",
        )
