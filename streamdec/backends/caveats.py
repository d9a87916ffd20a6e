"""Caveats of a tokenizer: where its text or ids differ from what people expect.

In: a loaded tokenizer. Out: a :class:`Caveat` for each kind found. :func:`warn_of_caveats` warns
about those that change text. The caveats come from the loaded tokenizer and the files beside it. If
``streamdec.preflight`` has a finding for the same property, the code is the same.

The library's rules are in ``added_vocabulary.rs`` and ``byte_level.rs`` of ``tokenizers`` 0.23.
Since 0.23.1 it decodes an added token with ``normalized=true`` as its normalized text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from streamdec.backends._decoder_chain import byte_names
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.library_stream import library_tokenizer
from streamdec.errors import warn
from streamdec.folders.apply_tokenizer_config import missing_beside
from streamdec.folders.tokenizer_config import CONFIG, read_object
from streamdec.protocols import ByteLevel, TextRules
from streamdec.protocols import Tokenizer as AnyTokenizer
from streamdec.tokenizers._common import guarded

CLEAN_UP = "clean_up_tokenization_spaces"
_SHOWN = 3


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
    """The tokens by their ids, ascending; empty if it concerns a setting."""
    changes_text: bool = False
    """Whether decoded text differs from what people expect; the loader warns about it."""

    def __str__(self) -> str:
        listed = [f"{text!r:.40} ({i})" for i, text in self.tokens.items()]
        shown = ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")
        counted = f" ({len(listed):,}): {shown}" if listed else ""
        return f"{self.what}{counted}. {self.follows}"


def caveats_of(tokenizer: AnyTokenizer) -> tuple[Caveat, ...]:
    """Return all caveats, in a fixed order.

    Raises :class:`~streamdec.TokenizerLoadError` if a file beside the tokenizer is malformed.
    """
    return (*_of_text(tokenizer), *_of_ids(tokenizer), *_of_config(tokenizer))


def warn_of_caveats(tokenizer: AnyTokenizer) -> None:
    """Warn (:class:`~streamdec.StreamdecWarning`) of each caveat that changes text.

    Looks only at added tokens, in 0.1 ms for 1,000, and reads no file.
    """
    for caveat in _of_text(tokenizer):
        if caveat.changes_text:
            name = getattr(tokenizer, "name", type(tokenizer).__name__)
            warn(f"{name!r}: {caveat}")


# --- text -----------------------------------------------------------------------------------------


def _of_text(tokenizer: AnyTokenizer) -> Iterator[Caveat]:
    library = library_tokenizer(tokenizer)
    if library is None or not isinstance(tokenizer, HuggingFaceTokenizer):
        return
    # Use the tokenizer's copy: the library would make new objects, 1 µs each.
    added = sorted(tokenizer._added_tokens.items())
    yield from _normalized(tokenizer, library, added)
    yield from _of_byte_letters(tokenizer.rules, added)


def _normalized(
    tokenizer: AnyTokenizer, library: Tokenizer, added: Iterable[tuple[int, AddedToken]]
) -> Iterator[Caveat]:
    normalizer = library.normalizer
    if normalizer is None:
        return
    changed = {
        i: token.content
        for i, token in added
        if token.normalized and guarded(normalizer.normalize_str, token.content) != token.content
    }
    special = {i for i, token in added if token.special}
    printed = {i: text for i, text in changed.items() if library.id_to_token(i) != text}
    unskipped = {i: t for i, t in printed.items() if i in special and not tokenizer.is_skipped(i)}
    code = "ADDED_TOKEN_NORMALIZED"
    what = "added tokens with normalized=true and a text that the normalizer changes"
    if unskipped:
        yield Caveat(
            code,
            f"special {what}",
            f"They are decoded as other text ({library.id_to_token(min(unskipped))!r}), and "
            "skip_special_tokens=True does not skip them. Set normalized to false in the file.",
            unskipped,
            changes_text=True,
        )
    others = {i: text for i, text in printed.items() if i not in unskipped}
    if others:
        follows = f"They are decoded as other text ({library.id_to_token(min(others))!r})."
        yield Caveat(code, what, follows, others, changes_text=True)
    latent = {i: text for i, text in changed.items() if i not in printed}
    if latent:
        yield Caveat(
            code,
            what,
            "Since version 0.23.1 tokenizers decodes them as other text, and "
            "skip_special_tokens=True does not skip them. The installed version decodes them "
            "as they are.",
            latent,
        )


def _of_byte_letters(
    rules: TextRules | None, added: Iterable[tuple[int, AddedToken]]
) -> Iterator[Caveat]:
    if rules is None or not isinstance(rules.rule, ByteLevel):
        return
    letters = frozenset(byte_names(rules))
    found = {
        i: token.content
        for i, token in added
        if not token.content.isascii() and letters.issuperset(token.content)
    }
    if found:
        yield Caveat(
            "ADDED_TOKEN_OF_BYTE_LETTERS",
            "added tokens whose letters stand for bytes",
            "They are decoded as other text: the library decodes each letter as its byte, which is "
            "often not a character (U+FFFD), while llama.cpp prints the letters.",
            found,
            changes_text=True,
        )


# --- ids ------------------------------------------------------------------------------------------


def _of_ids(tokenizer: AnyTokenizer) -> Iterator[Caveat]:
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return
    moved = _with_ids(tokenizer, tokenizer.renumbered)
    if moved:
        yield Caveat(
            "ADDED_TOKEN_ID_NOT_HONOURED",
            "added tokens with other ids than the tokenizer.json says",
            "The library assigns the next free id; ids read from the file are wrong.",
            moved,
        )
    changes = tokenizer.tokenizer_config_changes
    if changes is not None and changes.other_ids:
        yield Caveat(
            "ADDED_TOKEN_ID_DRIFT",
            f"added tokens with other ids than {changes.files[0]} says",
            "The ids here are those of the library, as in transformers; ids read from that file "
            "are wrong.",
            _with_ids(tokenizer, changes.other_ids),
        )


def _with_ids(tokenizer: AnyTokenizer, texts: Iterable[str]) -> dict[int, str]:
    found = {tokenizer.token_to_id(text): text for text in texts}
    return dict(sorted((i, text) for i, text in found.items() if i is not None))


# --- files beside ---------------------------------------------------------------------------------


def _of_config(tokenizer: AnyTokenizer) -> Iterator[Caveat]:
    if isinstance(tokenizer, HuggingFaceTokenizer):
        yield from _only_in_config(tokenizer)
    folder = _folder_of(tokenizer)
    config = (folder and read_object(folder, CONFIG)) or {}
    if config.get(CLEAN_UP) is True:
        yield Caveat(
            "CLEAN_UP_TOKENIZATION_SPACES",
            f"{CONFIG} asks for {CLEAN_UP}",
            "transformers 4 then removes the space before . , ? ! n't 'm 's 've 're from decoded "
            "text; transformers 5 does not for BPE, and engines that stream do not. Here it is an "
            f"option of a stream: {CLEAN_UP}=True.",
        )


def _only_in_config(tokenizer: HuggingFaceTokenizer) -> Iterator[Caveat]:
    code, what = (
        "ADDED_TOKEN_ONLY_IN_CONFIG",
        "tokens that only files beside the tokenizer.json name",
    )
    changes = tokenizer.tokenizer_config_changes
    if changes is not None:
        if changes.appended:
            yield Caveat(
                code,
                what,
                "They are added here, as in transformers; loaders that read only the "
                "tokenizer.json do not know them.",
                changes.appended,
            )
        return
    library, folder = library_tokenizer(tokenizer), _folder_of(tokenizer)
    if library is None or folder is None:
        return
    missing = missing_beside(folder, library)
    if missing:
        listed = ", ".join(f"{text!r:.40}" for text in missing[:_SHOWN])
        yield Caveat(
            code,
            f"{what} ({len(missing)}): {listed}{', …' if len(missing) > _SHOWN else ''}",
            "They are not tokens here, because only the tokenizer.json was loaded. A folder, or "
            "apply_tokenizer_config=True, adds them, as transformers does.",
        )


def _folder_of(tokenizer: AnyTokenizer) -> Path | None:
    """Return the folder of the tokenizer's file; None if there is no such file."""
    path = Path(str(getattr(tokenizer, "name", "")))
    try:
        return path if path.is_dir() else path.parent if path.is_file() else None
    except OSError:  # a name that is too long
        return None
