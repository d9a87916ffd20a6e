"""Warn if a ``tokenizer.json`` gives unexpected text or ids.

In: a loaded tokenizer. Out: a warning for each kind of caveat. streamdec does what the library
does.

The library's rules are in ``added_vocabulary.rs`` and ``byte_level.rs`` of ``tokenizers`` 0.23.
Since 0.23.1 it decodes an added token with ``normalized=true`` as its normalized text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from streamdec.backends._decoder_chain import byte_names
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import TokenizerLibraryError, warn
from streamdec.protocols import Tokenizer as AnyTokenizer
from streamdec.tokenizers._common import guarded, state_of

_SHOWN = 3
_TEXT = "a b"


def warn_of_caveats(tokenizer: AnyTokenizer) -> None:
    """Warn (:class:`~streamdec.StreamdecWarning`) of each caveat, in 0.2 ms for 1,000 tokens."""
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return
    library = tokenizer._tokenizer
    if odd := _of_other_text(tokenizer):
        what = "added tokens that a normalizer changes, or whose letters are decoded as bytes"
        warn(f"{tokenizer.name!r}: {what}: {_listed(odd)}. They are decoded as other text")
    if wrong := _of_other_id(library):
        what = "tokens that the post_processor adds with other ids than the vocabulary has"
        warn(f"{tokenizer.name!r}: {what}: {_listed(wrong)}")
    text = _decoded(library)
    if found := {"\u0120", "\u2581"}.intersection(text):
        what = f"a decoder that cannot read the vocabulary: it decodes {_TEXT!r} as {text!r:.40}"
        warn(f"{tokenizer.name!r}: {what}. Each space is shown as {min(found)}, as in the library")


def _listed(tokens: Mapping[int, str]) -> str:
    shown = ", ".join(f"{text!r:.40} ({i})" for i, text in [*tokens.items()][:_SHOWN])
    return shown if len(tokens) <= _SHOWN else f"{shown} and {len(tokens) - _SHOWN:,} more"


def _of_other_text(tokenizer: HuggingFaceTokenizer) -> dict[int, str]:
    """Return the added tokens that are decoded as other text than their own."""
    library, letters = tokenizer._tokenizer, frozenset(byte_names(tokenizer.rules))
    # The tokenizer's own copy: the library would make new objects, 1 µs each.
    return {
        i: token.content
        for i, token in sorted(tokenizer._added_tokens.items())
        if library.id_to_token(i) != token.content
        or (not token.content.isascii() and letters.issuperset(token.content))
    }


def _of_other_id(library: Tokenizer) -> dict[int, str]:
    """Return the tokens of the post-processor whose ids are not those of the vocabulary."""
    state: dict[str, Any] = state_of(library.post_processor) or {}
    named: list[tuple[str, int]] = []
    for part in (state, *state.get("processors", ())):
        named += (tuple(part[key]) for key in ("sep", "cls") if key in part)
        for token in part.get("special_tokens", {}).values():
            named += zip(token["tokens"], token["ids"], strict=True)
    return {i: text for text, i in named if library.token_to_id(text) != i}


def _decoded(library: Tokenizer) -> str:
    """Encode and decode a text with a space, which may be spelled otherwise."""
    try:
        return library.decode(guarded(library.encode, _TEXT, add_special_tokens=False).ids)
    except TokenizerLibraryError:
        return ""
