"""The place of a tokenizer: from a path or a name to a file or folder.

In: what ``load_tokenizer`` was given. Out: a :class:`Place`. For the id of a repository on the
Hugging Face Hub, it is the folder of a snapshot that has a tokenizer. The library
``huggingface_hub`` (extra ``hub``) finds and downloads the files. Its settings apply (``HF_HOME``,
``HF_ENDPOINT``, ``HF_TOKEN``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from streamdec.errors import MissingExtraError, TokenizerLibraryError, TokenizerLoadError
from streamdec.folders.tokenizer_config import read_object
from streamdec.loading.detect import detect_format
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from streamdec.tokenizers.encodings import EncodingSpec

DEMO = Path(__file__).parent / "demo"
"""The folder of a small model's tokenizer, a part of this package."""
VARIABLE = "STREAMDEC_MODELS"
"""The environment variable with the path of a JSON object: names to paths or names."""
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tokenizer is: a path, or the rank file of an encoding."""

    path: Path | None
    encoding: str | EncodingSpec | None = None
    """The encoding of the rank file, if it was given or is all there is."""
    revision: str | None = None


def looked_up(name: str, models: Mapping[str, str | os.PathLike[str]] | None) -> str:
    """Return what ``models`` has for ``name``; without such an entry, ``name``.

    If ``models`` is None, the table is that of the environment. Raises
    :class:`~streamdec.TokenizerLoadError` if it cannot be read, or if the value is not a path.
    """
    if not isinstance(models, Mapping | None):
        raise TypeError(f"models must be a dict of names to paths, not {type(models).__name__}")
    given = os.environ.get(VARIABLE)
    if models is None and given:
        models = read_object(Path(given).parent, Path(given).name)
        if models is None:
            raise TokenizerLoadError(f"{VARIABLE} names {given!r:.200}, which is not a file")
    value: object = (models or {}).get(name, name)
    if not isinstance(value, (str, os.PathLike)) or value == "":
        raise TokenizerLoadError(f"the table of models has {value!r:.80} for {name!r:.80}")
    return os.fsdecode(value)


def place_of(
    name: str, encoding: str | EncodingSpec | None, revision: str | None, *, allow_download: bool
) -> Place:
    """Return where the tokenizer called ``name`` is.

    The arguments are those of load_tokenizer. Raises TokenizerLoadError or MissingExtraError, which
    say where it was looked for.
    """
    is_there = False
    with suppress(OSError, ValueError):  # too long, or with a NUL
        is_there = Path(name).exists()
    hub_id = name.removeprefix(HUB)
    if revision is not None and (is_there or not is_hub_id(hub_id)):
        # An encoding has no revisions, so with a revision the name is that of a repository.
        raise TokenizerLoadError(
            f"revision={revision!r:.80} is only for an id of the Hub, such as 'org/model', and "
            f"{name!r:.200} is {'a path' if is_there else 'not one'}"
        )
    if is_there:
        return Place(Path(name), encoding)
    reasons: list[str] = []
    if revision is None and hub_id == name:
        if name == "demo":
            return Place(DEMO, encoding)
        if (named := _encoding_named(name)) is not None:
            return Place(None, encoding or named)
        reasons = _reasons(name)
        if not reasons:
            return Place(Path(name), encoding)
        if not is_hub_id(name):
            raise TokenizerLoadError("; ".join(reasons))
    try:
        folder = find_snapshot(hub_id, revision, allow_download=allow_download)
    except (TokenizerLoadError, MissingExtraError) as error:
        if not reasons:
            raise
        raise TokenizerLoadError("; ".join([*reasons, f"from the Hub: {error}"])) from error
    return Place(folder, encoding, folder.name)


def _reasons(name: str) -> list[str]:
    """Return why ``name`` is neither a path nor a known name; [] if it has become a path."""
    try:
        detect_format(name)
    except TokenizerLoadError as error:
        reasons = [str(error)]
    else:
        return []
    if name.startswith("~"):
        reasons.append("'~' is not replaced by your home folder; write the whole path")
    elif not Path(name).is_absolute():
        with suppress(OSError):  # the current folder was deleted
            reasons.append(f"the current folder is {str(Path.cwd())!r}")
    if is_hub_id(name):
        from streamdec.tokenizers.encodings import ENCODINGS

        known = ", ".join(ENCODINGS)
        reasons.append(f"it is not the name of a known model or encoding ({known})")
        if find_spec("tiktoken") is None:
            reasons.append("models of OpenAI need tiktoken: pip install 'streamdec[tiktoken]'")
    return reasons


def _encoding_named(name: str) -> str | None:
    """Return the encoding called ``name``, or the encoding of that model, or None."""
    from streamdec.backends.rank_files import encoding_of_model
    from streamdec.tokenizers.encodings import ENCODINGS

    if name in ENCODINGS:
        return name
    # Models of other organisations may have the same names as OpenAI's.
    organisation, _, model = name.rpartition("/")
    return encoding_of_model(model) if organisation in ("", "openai", "azure") else None


# --- the Hugging Face Hub -------------------------------------------------------------------------


def is_hub_id(name: str) -> bool:
    """Return whether ``name`` could be the id of a repository, such as ``org/model``."""
    return _ID.fullmatch(name) is not None and not name.endswith((".git", "."))


def find_snapshot(
    repo_id: str, revision: str | None = None, *, allow_download: bool = False
) -> Path:
    """Return the folder of ``revision``: a branch, tag or commit; ``main`` if None.

    Its name is the id of the commit. Without ``allow_download``, only the local cache is read.

    Raises :class:`TokenizerLoadError`, which says what is missing and what to do, and
    :class:`MissingExtraError` without huggingface_hub.
    """
    if not is_hub_id(repo_id):
        raise TokenizerLoadError(f"{repo_id!r:.100} is not an id of the Hub, such as 'org/model'")
    hub = library("huggingface_hub", "hub", "ids of the Hub need")
    try:
        folder = guarded(
            hub.snapshot_download,
            repo_id,
            revision=revision,
            allow_patterns=list(_FILES),
            local_files_only=not allow_download,
        )
        found = detect_format(folder)
        reason = "" if found.format != "unsupported" else found.description.partition(" (")[0]
    except TokenizerLibraryError as error:
        message = " ".join(str(error.__cause__).split())
        reason = f"the download failed: {type(error.__cause__).__name__}: {message:.300}"
        if not allow_download:
            reason = "it is not in the local cache"
    if not reason:
        return Path(folder)
    what = f"{repo_id!r} of the Hugging Face Hub"
    if revision is not None:
        what += f", revision {revision!r:.80}"
    hint = "give the path of a folder with its tokenizer files, or put them into the cache"
    if not allow_download:
        hint = "downloads are not allowed; give a folder, or allow_download=True (--allow-download)"
    raise TokenizerLoadError(f"{what}: {reason}; {hint}")
