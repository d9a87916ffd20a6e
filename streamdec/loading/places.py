"""The place of a tokenizer: from a path or a name to a file or folder.

In: what ``load_tokenizer`` was given. Out: a :class:`Place`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from streamdec.errors import MissingExtraError, TokenizerLoadError
from streamdec.loading.detect import detect_format
from streamdec.loading.hub import HUB, find_snapshot, is_hub_id
from streamdec.protocols import Tokenizer

if TYPE_CHECKING:
    from streamdec.tokenizers.encodings import EncodingSpec

_OF_OPENAI = ("", "openai", "azure")
"""The organisations whose model names tiktoken knows."""
_OPENAI_MODEL = re.compile(r"(?:gpt-\d|chatgpt-|o\d(?![a-z0-9]))[a-z0-9-]*(?:\.\d[a-z0-9-]*)?")
"""Names of OpenAI's models that only tiktoken maps to an encoding."""
_MAX_NAME = 100
"""The longest name of a model that is repeated in an error message."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tokenizer is: a path, or the rank file of an encoding."""

    path: Path | None
    encoding: str | EncodingSpec | None = None
    """The encoding of the rank file, if it was given or is all there is."""
    revision: str | None = None


DEMO = Path(__file__).parent / "demo"
"""The folder of a small model's tokenizer, a part of this package."""


def place_of(
    name: str,
    encoding: str | EncodingSpec | None,
    revision: str | None,
    *,
    allow_download: bool,
) -> Place:
    """Return where the tokenizer called ``name`` is.

    The arguments are those of load_tokenizer.

    Raises TokenizerLoadError or MissingExtraError, which say where it was looked for.
    """
    is_there = _is_there(name)
    if revision is not None:
        # An encoding has no revisions, so with a revision the name is that of a repository.
        if is_there or not is_hub_id(name.removeprefix(HUB)):
            raise TokenizerLoadError(
                f"revision={revision!r:.80} is only for an id of the Hub, such as 'org/model', and "
                f"{name!r:.200} is {'a path' if is_there else 'not one'}"
            )
    elif is_there:
        return Place(Path(name), encoding)
    elif name == "demo":
        return Place(DEMO, encoding)
    elif (named := _encoding_named(name)) is not None:
        return Place(None, encoding or named)
    if name.startswith(HUB) or revision is not None:
        snapshot = find_snapshot(name.removeprefix(HUB), revision, allow_download=allow_download)
        return Place(snapshot.folder, encoding, snapshot.commit)
    return _from_hub(name, encoding, allow_download=allow_download)


def use_instead(given: object) -> str:
    """Return the end of a message: how to use ``given``, if it is a tokenizer."""
    if isinstance(given, Tokenizer):
        return "; it is already a tokenizer of streamdec: use it directly"
    library = type(given).__module__.partition(".")[0]
    if library == "tokenizers" or hasattr(given, "backend_tokenizer"):
        return "; streams accept it as it is"
    return "; write TiktokenTokenizer(encoding)" if library == "tiktoken" else ""


def _from_hub(name: str, encoding: str | EncodingSpec | None, *, allow_download: bool) -> Place:
    """Return the repository of an id that is not a path.

    Raises TokenizerLoadError, which lists everything that was tried, and MissingExtraError if only
    tiktoken is missing.
    """
    model = _model_of_openai(name)
    if model and _OPENAI_MODEL.fullmatch(model) and find_spec("tiktoken") is None:
        raise MissingExtraError(
            f"{name!r:.200} is a model of OpenAI, which needs the library tiktoken: "
            "pip install 'streamdec[tiktoken]'"
        )
    reasons = []
    try:
        detect_format(name)
    except TokenizerLoadError as error:
        reasons.append(str(error))
    is_of_hub = is_hub_id(name)
    has_parts = "/" in name or os.sep in name
    is_path = not is_of_hub and has_parts
    if is_path and name.startswith("~"):
        reasons.append("'~' is not replaced by your home folder; write the whole path")
    elif has_parts and not Path(name).is_absolute():
        with suppress(OSError):  # the current folder was deleted
            reasons.append(f"the current folder is {str(Path.cwd())!r}")
    if not is_path and len(name) <= _MAX_NAME:
        from streamdec.tokenizers.encodings import ENCODINGS

        known = ", ".join(ENCODINGS)
        reasons.append(f"it is not the name of a known model or encoding ({known})")
        if find_spec("tiktoken") is None:
            reasons.append("models of OpenAI need tiktoken: pip install 'streamdec[tiktoken]'")
    if not is_of_hub:
        raise TokenizerLoadError("; ".join(reasons))
    try:
        snapshot = find_snapshot(name, allow_download=allow_download)
    except (TokenizerLoadError, MissingExtraError) as error:
        raise TokenizerLoadError("; ".join([*reasons, f"from the Hub: {error}"])) from error
    return Place(snapshot.folder, encoding, snapshot.commit)


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _encoding_named(name: str) -> str | None:
    """Return the encoding called ``name``, or the encoding of that model, or None."""
    from streamdec.backends.rank_files import encoding_of_model
    from streamdec.tokenizers.encodings import ENCODINGS

    if name in ENCODINGS:
        return name
    model = _model_of_openai(name)
    return None if model is None else encoding_of_model(model)


def _model_of_openai(name: str) -> str | None:
    """Return ``name`` without OpenAI as its organisation. None if it has another one."""
    # Models of other organisations may have the same names as OpenAI's.
    organisation, _, model = name.rpartition("/")
    return model if organisation in _OF_OPENAI else None
