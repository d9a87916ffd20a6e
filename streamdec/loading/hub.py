"""A tokenizer's files on the Hugging Face Hub: cached, or downloaded if allowed.

In: the id of a repository. Out: the folder of a snapshot that has a tokenizer. The library
``huggingface_hub`` (extra ``hub``) finds and downloads the files. Its settings apply (``HF_HOME``,
``HF_ENDPOINT``, ``HF_TOKEN``).
"""

from __future__ import annotations

import re
from pathlib import Path

from streamdec.errors import TokenizerLoadError
from streamdec.loading.detect import detect_format
from streamdec.tokenizers._extras import library

HUB = "hf://"
"""Marks a name as an id of the Hub, so that it is not read as a path or as the name of a model."""

_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("tekken.json", "tiktoken.model", "*.tiktoken", "tokenizer.model", "tokenizer.model.v*"),
    *("spiece.model", "sentencepiece.bpe.model", "vocab.json", "merges.txt", "vocab.txt"),
    *("source.spm", "target.spm"),
    *("config.json",),
    *("chat_template.jinja", "additional_chat_templates/*.jinja", "chat_template.json"),
)
"""The files that are downloaded: of tokenizers and chat templates, never weights."""

# About the rule of huggingface_hub's validate_repo_id: each part has at most 96 characters.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")


def is_hub_id(name: str) -> bool:
    """Return whether ``name`` could be the id of a repository, such as ``org/model``."""
    return _ID.fullmatch(name) is not None and not name.endswith((".git", "."))


def find_snapshot(
    repo_id: str, revision: str | None = None, *, allow_download: bool = False
) -> Path:
    """Return the folder of ``revision``: a branch, tag or commit; ``main`` if None.

    Its name is the id of the commit. A snapshot in the cache that has a tokenizer is used without
    a request to the Hub. Otherwise it is downloaded, if ``allow_download`` is true.

    Raises :class:`TokenizerLoadError`, which says what is missing and what to do, and
    :class:`MissingExtraError` without huggingface_hub.
    """
    if not is_hub_id(repo_id):
        raise TokenizerLoadError(f"{repo_id!r:.100} is not an id of the Hub, such as 'org/model'")
    found = _snapshot(repo_id, revision, local_files_only=True)
    if isinstance(found, Path):
        return found
    what = f"{repo_id!r} of the Hugging Face Hub"
    if revision is not None:
        what += f", revision {revision!r:.80}"
    if not allow_download:
        raise TokenizerLoadError(
            f"{what}: {found}, and downloads are not allowed; pass allow_download=True, or the "
            "path of a folder with its tokenizer files"
        )
    reason, found = found, _snapshot(repo_id, revision, local_files_only=False)
    if isinstance(found, str):
        raise TokenizerLoadError(
            f"{what}: {reason}, and the download failed: {found}. Give the path of a folder with "
            "its tokenizer files, or put them into the cache"
        )
    return found


def _snapshot(repo_id: str, revision: str | None, *, local_files_only: bool) -> Path | str:
    """Return the snapshot, or why it could not be downloaded or has no tokenizer."""
    hub = library("huggingface_hub", "hub", "ids of the Hub need")
    try:
        folder = Path(
            hub.snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=list(_FILES),
                local_files_only=local_files_only,
            )
        )
    # Errors of the network, the server, the disk and the library have no common base class.
    except Exception as error:  # noqa: BLE001
        if local_files_only:
            return "it is not in the local cache"
        told = " ".join(str(error).split())
        return f"{type(error).__name__}: {told:.300}"
    found = detect_format(folder)
    if found.format == "unsupported":  # without the advice for folders
        return found.description.partition(" (")[0]
    return folder
