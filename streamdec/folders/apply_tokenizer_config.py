"""Load a ``tokenizer.json`` with the files beside it, as transformers 5 does.

In: a folder and the library's tokenizer, loaded from the ``tokenizer.json`` in it. Out: the
tokenizer that transformers makes from the folder, and a list of the changes.

An engine sees more than the ``tokenizer.json``:

- transformers adds the tokens of ``tokenizer_config.json`` whose flags differ or which are missing,
  and those that have a role. Without an ``added_tokens_decoder`` in that file, it also reads
  ``special_tokens_map.json`` and ``added_tokens.json`` (:mod:`streamdec.folders.folder_tokens`).
- Some classes build the tokenizer from the vocabulary and ignore the rest of the file
  (:mod:`streamdec.folders.class_pipelines`). They keep only declared tokens.
- ``add_bos_token`` and ``add_eos_token`` decide what ``add_special_tokens`` adds.

If code of the folder makes the tokenizer, the declared ids are right, and a ``tokenizer.json`` that
contradicts them is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from streamdec.errors import TokenizerLoadError, warn
from streamdec.folders.assembled import Assembled
from streamdec.folders.class_pipelines import set_post_processor
from streamdec.folders.declared_tokens import DeclaredTokens
from streamdec.folders.folder_tokens import FolderTokens, read_folder
from streamdec.tokenizers._common import guarded


@dataclass(frozen=True, slots=True)
class TokenizerConfigChanges:
    """The changes that the files beside a ``tokenizer.json`` made."""

    files: tuple[str, ...] = ()
    """The names of the files that were read."""
    changed: Mapping[int, str] = field(default_factory=dict)
    """Added tokens with new flags, and added tokens that were words of the model before."""
    appended: Mapping[int, str] = field(default_factory=dict)
    """Tokens that the ``tokenizer.json`` does not have, by the ids that the library assigned."""
    lost: Mapping[int, str] = field(default_factory=dict)
    """Added tokens of the ``tokenizer.json`` that the class does not keep."""
    other_ids: Mapping[str, int] = field(default_factory=dict)
    """Tokens whose declared id, given here, is not the one that the library assigned."""
    built_by: str = ""
    """The class that builds its tokenizer from the vocabulary; empty for other classes."""
    replaced: tuple[str, ...] = ()
    """The parts of the ``tokenizer.json`` that the class or the files replaced."""
    not_followed: str = ""
    """Why the tokenizer may differ from that of transformers; empty if it should not."""

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return bool(self.changed or self.appended or self.lost or self.replaced)


def apply_config(
    tokenizer: Tokenizer,
    content: bytes,
    folder: Path,
    *,
    is_asked: bool,
    assembled: Assembled | None = None,
) -> tuple[Tokenizer, TokenizerConfigChanges]:
    """Return the tokenizer that transformers makes from ``folder``, and what changed.

    Args:
        tokenizer: The library's tokenizer of ``content``, which must not be used afterwards.
        content: The ``tokenizer.json``.
        folder: Its folder.
        is_asked: Whether the caller asked for the files to be applied. If not, a contradiction
            between the files is rejected.
        assembled: Where ``content`` is from, if the folder has no ``tokenizer.json``.

    Warns (:class:`~streamdec.StreamdecWarning`) if tokens get other ids than the file declares, and
    if the class cannot be followed. Raises :class:`~streamdec.TokenizerLoadError`, which names the
    file, if a file is malformed or contradicts the others; and
    :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.
    """
    before = tokenizer.get_added_tokens_decoder()
    tokens = (
        read_folder(folder, before, is_byte_level=b'"ByteLevel"' in content)
        if assembled is None
        else assembled.tokens
    )
    made, replaced, reason = _built(tokens, tokenizer, content)
    is_built = made is not tokenizer
    to_add = tokens.to_add(() if is_built else {token.content for token in before.values()})
    if assembled is not None:
        known = {token.content for token in tokens.beside.declared.values()}
        to_add += [token for token in assembled.added if token.content not in known]
    if tokens.is_remote and not is_asked:
        _refuse_contradictions(tokens, tokenizer, folder)
        known = {token.content for token in tokens.beside.declared.values()}
        to_add = [
            token
            for token in to_add
            if token.content in known or tokenizer.token_to_id(token.content) is not None
        ]
    words = {token.content: made.token_to_id(token.content) for token in to_add}
    if is_built or not {*map(repr, to_add)} <= {*map(repr, before.values())}:
        for group in _without_repetition(to_add):
            guarded(made.add_tokens, group)
    pipeline = tokens.pipeline if is_built else None
    if not reason and set_post_processor(
        made, pipeline, tokens.config, tokens.roles, has_file=assembled is None
    ):
        replaced = (*replaced, "post_processor")
    if tokens.is_remote and not is_asked:
        _refuse_contradictions(tokens, made, folder)
    after = made.get_added_tokens_decoder()
    new = {i: t.content for i, t in sorted(after.items()) if repr(t) != repr(before.get(i))}
    kept = {token.content for token in after.values()}
    was_added = {token.content for token in before.values()}
    is_known = {text: text in was_added or words.get(text) is not None for text in new.values()}
    changes = TokenizerConfigChanges(
        files=tokens.files,
        changed={i: text for i, text in new.items() if is_known[text]},
        appended={i: text for i, text in new.items() if not is_known[text]},
        lost={i: t.content for i, t in sorted(before.items()) if t.content not in kept},
        other_ids=_with_other_ids(tokens.beside, made),
        built_by=tokens.chosen.name if is_built else "",
        replaced=replaced,
        not_followed=reason and f"{tokens.chosen.name}: {reason}",
    )
    _warn(changes, made, folder)
    return (made if changes or assembled else tokenizer), changes


def _built(
    tokens: FolderTokens, tokenizer: Tokenizer, content: bytes
) -> tuple[Tokenizer, tuple[str, ...], str]:
    """Return the tokenizer of the class, and the parts of the file that it replaces.

    The third value is the reason why the class is not followed; empty if there is none.
    """
    cls = tokens.chosen.cls
    if cls is not None and cls.how == "python":
        return tokenizer, (), "the class does not read a tokenizer.json"
    if not tokens.is_built:
        return tokenizer, (), ""
    pipeline = tokens.pipeline
    if pipeline is None:
        return tokenizer, (), "the class builds its tokenizer in its own way"
    declared = {token.content for token in tokens.to_add(())}
    if not declared.issuperset(pipeline.data["added"]):
        return tokenizer, (), "the class adds tokens that the files do not declare"
    built = pipeline.build(tokenizer, content, tokens.config, tokens.roles)
    return (tokenizer, (), built) if isinstance(built, str) else (*built, "")


def _refuse_contradictions(tokens: FolderTokens, tokenizer: Tokenizer, folder: Path) -> None:
    """Raise TokenizerLoadError if the library's ids contradict the declared ids.

    Code of the folder, which is not run, would use the declared ids.
    """
    for token_id, token in sorted(tokens.beside.declared.items()):
        has, text = tokenizer.token_to_id(token.content), tokenizer.id_to_token(token_id)
        if has not in (token_id, None) or text not in (token.content, None):
            has_not = f"the vocabulary has {text!r:.60} there" if text is not None else ""
            has_other = f"it is {has} in the vocabulary" if has is not None else ""
            raise TokenizerLoadError(
                f"{str(folder)!r}: the tokenizer is made by code in the folder, which is not run. "
                f"{tokens.files[0]} declares id {token_id} for {token.content!r:.60}, but "
                f"{has_other or has_not}. Pass apply_tokenizer_config=True to add the tokens with "
                "the ids that the library assigns"
            )


def _without_repetition(tokens: Sequence[AddedToken]) -> list[list[AddedToken]]:
    """Split ``tokens`` into two calls in which no text repeats.

    Of tokens with the same text in one call, tokenizers 0.22 takes the first. Two calls have the
    effect of adding the tokens one by one: the last one decides the flags, and a text that was
    special once stays skipped.
    """
    last = {token.content: token for token in tokens}
    first: dict[str, AddedToken] = {}
    for token in tokens:
        if token.content not in first or (token.special and not first[token.content].special):
            first[token.content] = token
    again = [token for text, token in last.items() if repr(token) != repr(first[text])]
    return [[*first.values()], again]


def missing_beside(folder: Path, tokenizer: Tokenizer) -> list[str]:
    """Return the tokens that the files in ``folder`` name and ``tokenizer`` lacks.

    Raises :class:`~streamdec.TokenizerLoadError`.
    """
    own = guarded(tokenizer.get_added_tokens_decoder)
    tokens = read_folder(folder, own).to_add({token.content for token in own.values()})
    named = dict.fromkeys(token.content for token in tokens)
    return [text for text in named if tokenizer.token_to_id(text) is None]


def _with_other_ids(beside: DeclaredTokens, tokenizer: Tokenizer) -> dict[str, int]:
    """Return the declared ids of tokens that have other ids."""
    return {
        token.content: wanted
        for wanted, token in beside.declared.items()
        if tokenizer.token_to_id(token.content) != wanted
    }


def _warn(changes: TokenizerConfigChanges, tokenizer: Tokenizer, folder: Path) -> None:
    if changes.other_ids:
        listed = [
            f"{text!r:.60} is {tokenizer.token_to_id(text)}, not {wanted}"
            for text, wanted in changes.other_ids.items()
        ]
        shown = "; ".join(listed[:3]) + ("; …" if len(listed) > 3 else "")
        what = f"{len(listed)} added tokens have other ids than the file says"
        file = folder / changes.files[0]
        warn(f"{str(file)!r}: {what}: {shown}")
    if changes.not_followed:
        what = "ids and text may differ from those of transformers"
        message = f"{str(folder)!r}: {what}: {changes.not_followed}"
        warn(message)
