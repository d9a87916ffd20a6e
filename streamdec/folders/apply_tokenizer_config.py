"""Load a ``tokenizer.json`` with the files beside it, as transformers 5 does.

In: a folder and the library's tokenizer, loaded from the ``tokenizer.json`` in it. Out: the
tokenizer that transformers makes from the folder, and what it was made from.

transformers adds the tokens that other files declare (:mod:`streamdec.folders.folder_tokens`). Some
classes build the tokenizer from the vocabulary and ignore the rest of the file
(:mod:`streamdec.folders.class_pipelines`). Every declared id is compared with the result
(:mod:`streamdec.folders.agreement`): transformers ignores contradictions, so they are warnings. If
code of the folder makes the tokenizer, they are errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors

from streamdec.errors import warn
from streamdec.folders.agreement import Table, check_agreement
from streamdec.folders.class_pipelines import build, set_post_processor
from streamdec.folders.folder_tokens import FolderTokens, keep_skipped, read_folder
from streamdec.folders.tokenizer_class import NotFollowedError
from streamdec.folders.transformers_facts import facts
from streamdec.tokenizers._common import guarded

_CLEANS = "clean_up_tokenization_spaces"
_CLEANS_BPE = f"{_CLEANS}_for_bpe_even_though_it_will_corrupt_output"


@dataclass(frozen=True, slots=True)
class TokenizerConfigChanges:
    """The files beside a ``tokenizer.json`` that were read, and the class of the folder."""

    files: tuple[str, ...] = ()
    """The names of the files."""
    built_by: str = ""
    """The class that builds its tokenizer from the vocabulary; empty for other classes."""
    not_followed: str = ""
    """Why the tokenizer may differ from that of transformers; empty if it should not."""


def apply_config(
    tokenizer: Tokenizer, content: bytes, folder: Path, assembled: FolderTokens | None = None
) -> tuple[Tokenizer, TokenizerConfigChanges]:
    """Return the tokenizer that transformers makes from ``folder``, and what was applied.

    Args:
        tokenizer: The library's tokenizer of ``content``, which must not be used afterwards.
        content: The ``tokenizer.json``.
        folder: Its folder.
        assembled: The tokens of a folder that has no ``tokenizer.json``.

    Warns (:class:`~streamdec.StreamdecWarning`) if ids differ from those that a file declares, if
    transformers does not know the class, and if the files ask for what is not done here. Raises
    NotFollowedError if the class makes its tokenizer in its own way;
    :class:`~streamdec.TokenizerLoadError`, which names the file, if a file is malformed, or if code
    of the folder makes the tokenizer and its files contradict each other; and
    :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.
    """
    before = tokenizer.get_added_tokens_decoder()
    tokens = assembled
    if tokens is None:
        tokens = read_folder(folder, before, content=content)
    name, pipeline = tokens.chosen.name, tokens.pipeline
    not_followed = "; ".join(_not_followed(tokens))
    if not_followed:
        what = "ids and text may differ from those of transformers"
        warn(f"{str(folder)!r}: {what}: {not_followed}")
    warn_of_cleanup(folder, tokens.config, tokenizer)
    try:
        made = _made(tokenizer, content, tokens, before)
        if assembled is not None:
            _add_as_asked(made, tokens)
        elif pipeline is not None:
            set_post_processor(made, pipeline, tokens.roles, is_built=tokens.is_built)
    except NotFollowedError as error:
        raise NotFollowedError(f"{name}: {error}") from error
    file = "tokenizer.json" if assembled is None else "the SentencePiece model"
    # The code of a folder would use the declared ids. transformers loads other folders as here.
    refused = "the tokenizer is made by code in the folder, which is not run, and its files"
    table = Table(file, made.token_to_id, made.id_to_token, made.get_added_tokens_decoder())
    check_agreement(folder, tokens, table, refused=refused if tokens.is_remote else "")
    built_by = name if tokens.is_built else ""
    return made, TokenizerConfigChanges(tokens.files, built_by, not_followed)


def warn_of_cleanup(folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Warn if ``decode`` of transformers would clean up the text: ours does not."""
    is_bpe = type(tokenizer.model).__name__ == "BPE"
    if config.get(_CLEANS) and (not is_bpe or config.get(_CLEANS_BPE)):
        what = f"{_CLEANS} of tokenizer_config.json is not applied by decode"
        warn(f"{str(folder)!r}: {what}; DecodeStream(..., {_CLEANS}=True) applies it")


def _made(
    tokenizer: Tokenizer, content: bytes, tokens: FolderTokens, before: Mapping[int, AddedToken]
) -> Tokenizer:
    """Return the tokenizer that the class makes, with all added tokens; ``before`` has the file's.

    Raises NotFollowedError.
    """
    _check_followed(tokens)
    if tokens.is_built and tokens.pipeline is not None:
        tokenizer = build(tokens.pipeline, tokenizer, content, tokens.config, tokens.roles)
    to_add = tokens.to_add(() if tokens.is_built else {token.content for token in before.values()})
    if tokens.is_remote:  # its code gives other tokens no ids that are known here
        known = {token.content for token in tokens.declared.values()}
        known |= {t.content for t in to_add if tokenizer.token_to_id(t.content) is not None}
        to_add = [token for token in to_add if token.content in known]
    if tokens.is_built or not {*map(repr, to_add)} <= {*map(repr, before.values())}:
        # Of tokens with the same text in one call, tokenizers 0.22 takes the first. As if they were
        # added one by one, the last decides the flags, and a text that was special stays skipped.
        last = {token.content: token for token in to_add}
        special = {token.content for token in to_add if token.special}
        guarded(tokenizer.add_tokens, [*last.values()])
        keep_skipped(tokenizer, [last[t] for t in last if t in special and not last[t].special])
    return tokenizer


def _not_followed(tokens: FolderTokens) -> Iterator[str]:
    """Yield why the tokenizer may differ from that of transformers."""
    if tokens.chosen.unknown:
        yield f"{tokens.chosen.unknown:.60}: transformers {facts().version} has no such class"
    if tokens.is_remote:
        yield f"auto_map names code of the folder, which is not run: {tokens.code!r:.80}"
    for flag in ("split_special_tokens", "fix_mistral_regex"):
        if tokens.config.get(flag):
            yield f"{flag} of tokenizer_config.json is ignored"
    files = tokens.config.get("fast_tokenizer_files")
    if files and files != ["tokenizer.json"]:
        yield f"fast_tokenizer_files of tokenizer_config.json is ignored: {files!r:.80}"


def _check_followed(tokens: FolderTokens) -> None:
    """Raise NotFollowedError if only transformers can make the tokenizer of this class."""
    if tokens.how in ("python", "unknown"):
        raise NotFollowedError("the class does not read a tokenizer.json")
    if tokens.how == "decodes":
        raise NotFollowedError("the class decodes in its own way")
    if tokens.is_made and tokens.pipeline is None:
        raise NotFollowedError("the class builds its tokenizer in its own way")
    if tokens.is_built and tokens.pipeline is not None:
        declared = {token.content for token in tokens.to_add(())}
        if not declared.issuperset(tokens.pipeline["added"]):
            raise NotFollowedError("the class adds tokens that the files do not declare")


def _add_as_asked(tokenizer: Tokenizer, tokens: FolderTokens) -> None:
    """Set what ``add_special_tokens`` adds without a ``tokenizer.json``.

    These are bos before and eos after a text, if the configuration asks for them and they have ids.
    """

    def asked(role: str) -> dict[str, int]:
        text = tokens.roles.get(role) if tokens.config.get(f"add_{role}") else None
        token_id = tokenizer.token_to_id(text) if text else None
        return {} if text is None or token_id is None else {text: token_id}

    bos, eos = asked("bos_token"), asked("eos_token")
    if bos or eos:
        tokenizer.post_processor = guarded(
            processors.TemplateProcessing, [*bos, "$A", *eos], special_tokens=[*(bos | eos).items()]
        )
