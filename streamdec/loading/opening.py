"""From a file or folder to a tokenizer with its report.

In: a :class:`~streamdec.loading.places.Place` and its format. Out: the tokenizer of a backend,
which is imported when a file has its format.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from streamdec import tokenizers
from streamdec.backends._tokenizer_json import Source, read_source
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.core.shared_tables import tokenizer_for
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError, warn
from streamdec.folders.agreement import compare
from streamdec.folders.apply_tokenizer_config import warn_of_cleanup
from streamdec.folders.folder_tokens import has_config, read_folder
from streamdec.folders.tokenizer_class import NotFollowedError
from streamdec.folders.transformers_facts import facts
from streamdec.loading.detect import Detected
from streamdec.loading.places import HUB, Place
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.encodings import EncodingSpec
from streamdec.tokenizers.tokenizer_report import FastMode, TokenizerReport

SUPPORTED = (
    "a Hugging Face tokenizer.json (of any name), a Tekken file, a tiktoken rank file, a "
    "SentencePiece model, a GGUF file, or a folder that has one"
)

_CLASSES = {
    "tekken": "TekkenTokenizer",
    "sentencepiece": "SentencePieceTokenizer",
    "gguf": "GGUFTokenizer",
}


def open_tokenizer(
    place: Place,
    found: Detected | None,
    fast: FastMode,
    apply_tokenizer_config: bool | None,
    trial: Callable[[], None] | None,
    *,
    allow_download: bool,
) -> BaseTokenizer:
    """Return the tokenizer of ``place``, with its report.

    ``found`` is its format, and ``trial`` builds fastokens in a child process. The other arguments
    are those of load_tokenizer.
    """
    reason, applies = "", False
    if place.path is None or found is None:
        assert place.encoding is not None
        kind = tokenizers.TiktokenTokenizer
        tokenizer: BaseTokenizer = kind.named(place.encoding, allow_download=allow_download)
    else:
        applies = place.path.is_dir() if apply_tokenizer_config is None else apply_tokenizer_config
        try:
            source = None if place.encoding is not None else _source(found, applies=applies)
            if source is not None:
                made = HybridTokenizer.__new__(HybridTokenizer)
                return made._load(source, fast, found.format, place.revision, trial)
            tokenizer = _of_other_format(found, place.encoding)
        except NotFollowedError as error:
            reason = error.why
            folder = found.path if found.path.is_dir() else found.path.parent
            tokenizer = _by_transformers(folder, reason)
    if applies and found is not None:
        is_error = found.format == "tiktoken" and place.encoding is None
        compare(tokenizer, found.path, is_error=is_error)
    if not reason and (found is None or found.format == "tiktoken"):
        kind_of_file = "" if found is None else "a rank file of "
        reason = f"{kind_of_file}the encoding {getattr(tokenizer, 'encoding_name', '')}"
    tokenizer.report = TokenizerReport(
        format="tiktoken" if found is None else found.format,
        requested=fast,
        active=tokenizer.tokenizer_type,
        reason=reason or (found.description if found is not None else ""),
        sha256=getattr(tokenizer, "sha256", None),
        revision=place.revision,
    )
    return tokenizer


def _source(found: Detected, *, applies: bool) -> Source | None:
    """Return the ``tokenizer.json``, or the tokenizer of a SentencePiece folder.

    None for other files. Raises NotFollowedError if only transformers can make the tokenizer.
    """
    path, folder = found.path, found.path.parent
    if found.format == "transformers":
        raise NotFollowedError(found.description)
    if found.format == "huggingface":
        return read_source(path, applies)
    if found.format != "sentencepiece" or not applies:
        return None
    if (folder / "vocab.json").is_file():
        raise NotFollowedError("its ids are those of vocab.json, not those of the model")
    if not has_config(folder):
        return None
    from streamdec.folders.assembled import from_sentencepiece

    tokenizer, tokens, digest = from_sentencepiece(path)
    return Source(tokenizer, digest, str(path), path, applies, tokens=tokens)


def _of_other_format(found: Detected, encoding: str | EncodingSpec | None) -> BaseTokenizer:
    """Load a file that is not a tokenizer.json."""
    if found.format == "unsupported":
        what = f"found {found.description}; supported: {SUPPORTED}"
        raise TokenizerLoadError(f"{str(found.path)!r}: {what}")
    if found.format == "tiktoken":
        return tokenizers.TiktokenTokenizer(found.path, encoding=encoding)
    if encoding is not None:
        what = f"remove encoding=, which is only for rank files; this is {found.description}"
        raise TokenizerLoadError(f"{str(found.path)!r}: {what}")
    loaded: BaseTokenizer = getattr(tokenizers, _CLASSES[found.format])(found.path)
    return loaded


def _by_transformers(folder: Path, reason: str) -> BaseTokenizer:
    """Return the tokenizer that transformers makes from ``folder``.

    It is a HuggingFaceTokenizer if ``AutoTokenizer`` makes a fast tokenizer whose class decodes as
    its backend does. Code of the folder is not run, and nothing is downloaded. ``reason`` says why
    streamdec does not make it, for messages. Raises
    :class:`~streamdec.errors.MissingExtraError`, with the command that installs transformers, and
    :class:`~streamdec.TokenizerLoadError`.
    """
    what = f"{str(folder)!r} ({reason}) needs"
    auto = library("transformers", "transformers", what).AutoTokenizer
    try:
        given = guarded(
            auto.from_pretrained, str(folder), trust_remote_code=False, local_files_only=True
        )
    except TokenizerLibraryError as error:
        cause = error.__cause__
        failed = f"transformers cannot load it: {type(cause).__name__}: {cause!s:.300}"
        raise TokenizerLoadError(f"{str(folder)!r} ({reason}): {failed}") from error
    if not isinstance(getattr(given, "added_tokens_decoder", None), dict):
        what = f"transformers makes a {type(given).__name__}, which does not list its tokens"
        how = "use DecodeStream(AutoTokenizer.from_pretrained(folder))"
        raise TokenizerLoadError(f"{str(folder)!r} ({reason}): {what}; {how}")
    from streamdec.backends.transformers_object import TransformersTokenizer, roles_of

    config = read_folder(folder).config
    if config.get("split_special_tokens"):
        warn(f"{str(folder)!r}: split_special_tokens of tokenizer_config.json is ignored")
    with suppress(TokenizerLibraryError):  # LayoutLM encodes no plain text
        guarded(given, "")  # SeamlessM4T changes what it puts around a text when it is called
    tokenizer = tokenizer_for(given)
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return TransformersTokenizer(given, folder)
    warn_of_cleanup(folder, config, tokenizer._tokenizer)
    tokenizer.name, tokenizer._roles = str(folder), roles_of(given)
    return tokenizer


def warn_of_id(name: str, tokenizer: BaseTokenizer) -> None:
    """Warn if transformers would ignore the class of the repository ``name``, which was used."""
    changes = getattr(tokenizer, "tokenizer_config_changes", None)
    built_by: str = getattr(changes, "built_by", "")
    hub_id = name.removeprefix(HUB)
    if built_by and any(fnmatchcase(hub_id.lower(), each) for each in facts().wrong_ids):
        what = f"transformers ignores the class of {hub_id}, {built_by}"
        warn(f"{what}: ids and text may differ from those of transformers")
