"""``load_tokenizer``: from a path or a name to a tokenizer ready to stream.

In: a path, the name of an encoding or of a model, or an id of the Hugging Face Hub. Out: a
backend's tokenizer, whose compiled table was compared with its own ``decode``, and a report on how
it was loaded. A backend is imported when a file has its format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from streamdec import hooks
from streamdec.backends.caveats import warn_of_caveats
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.backends.rank_encodings import encoding_of_model
from streamdec.chat.tokenizer_chat import TokenizerChat
from streamdec.core.shared_tables import route_of
from streamdec.errors import MissingExtraError, TokenizerLoadError
from streamdec.fastpath.options import FastOptions
from streamdec.folders.agreement import compare
from streamdec.folders.assembled import Assembled, from_sentencepiece
from streamdec.folders.folder_tokens import has_config
from streamdec.loading.by_transformers import load_by_transformers
from streamdec.loading.detect import Detected, detect_format
from streamdec.loading.hub import HUB, find_snapshot, is_hub_id
from streamdec.loading.model_names import looked_up
from streamdec.loading.untrusted import tried
from streamdec.mistakes import check_flag
from streamdec.protocols import Tokenizer
from streamdec.tokenizers._chat import NewTemplate
from streamdec.tokenizers.encodings import ENCODINGS, EncodingSpec
from streamdec.tokenizers.tokenizer_report import (
    FastMode,
    LoadedTokenizer,
    TokenizerReport,
    versions_of,
)

if TYPE_CHECKING:
    from streamdec.backends.gguf import GGUFTokenizer
    from streamdec.backends.huggingface import HuggingFaceTokenizer
    from streamdec.backends.sentencepiece import SentencePieceTokenizer
    from streamdec.backends.tiktoken import TiktokenTokenizer
    from streamdec.backends.transformers_object import TransformersTokenizer

    Loaded = (
        TiktokenTokenizer
        | SentencePieceTokenizer
        | GGUFTokenizer
        | HuggingFaceTokenizer  # and HybridTokenizer
        | TransformersTokenizer
    )

__all__ = ["load_tokenizer"]

SUPPORTED = (
    "a Hugging Face tokenizer.json (of any name), a Tekken file, a tiktoken rank file, a "
    "SentencePiece model, a GGUF file, or a folder that has one"
)

_OF_OPENAI = ("", "openai", "azure")
"""The organisations whose model names tiktoken knows."""
_OPENAI_MODEL = re.compile(r"(?:gpt-\d|chatgpt-|o\d(?![a-z0-9]))[a-z0-9-]*(?:\.\d[a-z0-9-]*)?")
"""Names of OpenAI's models that only tiktoken maps to an encoding."""
_MAX_NAME = 100
"""The longest name of a model that is repeated in an error message."""


def load_tokenizer(
    path_or_name: str | os.PathLike[str],
    *,
    fast: FastMode | None = None,
    strict: bool = False,
    apply_tokenizer_config: bool | None = None,
    encoding: str | EncodingSpec | None = None,
    revision: str | None = None,
    allow_download: bool = False,
    chat_template: NewTemplate | None = None,
    untrusted: bool | None = None,
    models: Mapping[str, str | os.PathLike[str]] | None = None,
) -> LoadedTokenizer:
    """Load the tokenizer of a file, a folder, an encoding, a model or a repository.

    The content of a file determines its format, not its name. In a folder, names determine which
    files are read; of several formats, the first of these is loaded: tokenizer.json, Tekken, rank
    file, SentencePiece, GGUF. A folder with none of them is loaded with transformers if its files
    name a class of transformers that makes a tokenizer.

    If there is no such path, it is a name: ``"demo"``, a small tokenizer in this package, with a
    chat template; of an encoding (``"cl100k_base"``); of a model
    that tiktoken knows (``"gpt-4o"``); or the id of a repository on the Hugging Face Hub
    (``"org/model"``, or ``"hf://org/model"`` to exclude the others). The files of a name are taken
    from the caches of tiktoken and huggingface_hub.

    Args:
        path_or_name: a path, or a name as above.
        fast: when fastokens is built: in the ``"background"``, when that is worth it; ``"now"``; or
            never, ``"off"``. See :class:`~streamdec.tokenizers.HybridTokenizer`. None means the
            environment's ``STREAMDEC_FAST``, else ``"background"``. It encodes for a tokenizer.json
            and for SentencePiece folders that are loaded as transformers loads them.
        strict: whether it is an error if fastokens cannot be used; needs ``fast="now"``.
        apply_tokenizer_config: whether the files beside a tokenizer.json or a SentencePiece model
            are applied, as transformers 5 and the engines that use it do. None means True for a
            folder and False for a file. If the tokenizer of a folder is made by code in it and the
            files contradict each other, None raises TokenizerLoadError.
        encoding: for a rank file only: the name of its encoding in
            :data:`~streamdec.tokenizers.encodings.ENCODINGS`, or an EncodingSpec. It is needed for
            an unknown file; for a file that several encodings share, the default is the first.
        revision: a branch, a tag or a commit of a repository on the Hub; ``main`` by default.
        allow_download: whether files that are not in a cache may be fetched.
        chat_template: a chat template, as for ``set_chat_template``: its text, the path of a file,
            several templates by name, or a :class:`~streamdec.chat.ChatTemplate`. By default the
            model's own is looked for when ``apply_chat_template`` is first called, and
            ``get_chat_template().origin`` says which one it is.
        untrusted: whether the files may come from a stranger. They are then loaded in a child
            process with limited memory and time before they are loaded here, which takes twice as
            long and about 0.3 seconds more. None means True for a repository on the Hub and False
            otherwise. The page on security says what is not bounded.
        models: names of models, each with the path or name to load for it. None means the table in
            the JSON file that the environment's ``STREAMDEC_MODELS`` names, if it is set.

    Returns:
        A new tokenizer, which threads may share. Its ``report`` says what was requested, which
        library encodes, and why. ``tokenizer_config_changes`` has what the files beside a
        tokenizer.json changed, and is None if they were not read.

    Loading decodes a sample of ids with streamdec's table and with the tokenizer's own ``decode``,
    and warns (:class:`~streamdec.StreamdecWarning`) if the texts differ. It also warns of added
    tokens that are decoded as other text than their own (:mod:`streamdec.backends.caveats`).
    Loading takes up to 30 ms longer than in the library. With ``fast="now"`` it takes four to ten
    times as long.

    Raises:
        TokenizerLoadError: the path does not exist or cannot be read, no backend supports its
            format, or the files of a name are not in a cache and may not be downloaded. The message
            says what to do. With ``strict`` also if fastokens gives other ids.
        MissingExtraError: the library for the format is missing.
        ChatTemplateError: ``chat_template`` cannot be read.
        TypeError: ``path_or_name`` is neither a string nor a path, or a flag is not a bool.
        ValueError: ``fast`` or ``strict`` is invalid.

    >>> from streamdec import load_tokenizer
    >>> tokenizer = load_tokenizer("demo")
    >>> tokenizer
    HybridTokenizer('demo', ByteLevel)
    >>> tokenizer.decode(tokenizer.encode("naïve café").ids)
    'naïve café'
    >>> load_tokenizer("path/to/tekken.json").report.format
    'tekken'
    """
    if not isinstance(path_or_name, (str, bytes, os.PathLike)):
        told = f"path_or_name must be a path or a name, not {path_or_name!r:.80}"
        raise TypeError(f"{told}{_hint(path_or_name)}")
    name = os.fsdecode(path_or_name)
    if not name:  # pathlib would read it as the working directory
        raise TokenizerLoadError(
            "path_or_name is empty; give a path or a name, such as 'org/model'"
        )
    check_flag("allow_download", allow_download)
    if apply_tokenizer_config is not None:
        check_flag("apply_tokenizer_config", apply_tokenizer_config)
    if untrusted is not None:
        check_flag("untrusted", untrusted)
    options = FastOptions.of(fast, strict=strict)
    started = perf_counter()
    loaded: Loaded | None = None
    failed: str | None = None
    try:
        asked = looked_up(name, models)
        source = _source_of(asked, encoding, revision, allow_download=allow_download)
        found = None if source.path is None else detect_format(source.path)
        if untrusted or (untrusted is None and source.revision is not None):
            options = tried(source.path, found, options, encoding, apply_tokenizer_config)
        loaded = _loaded(
            source, found, options, encoding, apply_tokenizer_config, allow_download=allow_download
        )
        loaded._chat = _chat_of(loaded, source.path, chat_template)
        if source.path == _DEMO:
            loaded.name = asked
        route_of(loaded)
        warn_of_caveats(loaded)
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        _tell(name, loaded, perf_counter() - started, failed)
    return loaded


def _tell(name: str, tokenizer: Loaded | None, seconds: float, failed: str | None) -> None:
    """Report one call to the hooks."""
    if not hooks.installed:  # a vocabulary takes time to count
        return
    if tokenizer is None:
        event = hooks.Loaded("", name, "", seconds, 0, failed)
    else:
        kind, form = tokenizer.tokenizer_type, tokenizer.report.format
        event = hooks.Loaded(kind, name, form, seconds, tokenizer.vocab_size, failed)
    hooks.tell(hooks.installed, "loaded", event)


def _chat_of(loaded: Loaded, path: Path | None, given: NewTemplate | None) -> TokenizerChat:
    """Return the source of its chat template, which is read later."""
    if path is None:
        return TokenizerChat(None, template=given)
    folder = path if path.is_dir() else path.parent
    gguf = Path(loaded.name) if loaded.report.format == "gguf" else None
    return TokenizerChat(folder, gguf=gguf, template=given)


# --- from a name to a path ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the tokenizer is: a path, or the rank file of an encoding."""

    path: Path | None
    encoding: str | EncodingSpec = ""
    revision: str | None = None


_DEMO = Path(__file__).parent / "demo"
"""The folder of a small model's tokenizer, a part of this package."""


def _source_of(
    name: str,
    encoding: str | EncodingSpec | None,
    revision: str | None,
    *,
    allow_download: bool,
) -> _Source:
    is_there = _is_there(name)
    if revision is not None:
        # An encoding has no revisions, so with a revision the name is that of a repository.
        if is_there or not is_hub_id(name.removeprefix(HUB)):
            raise TokenizerLoadError(
                f"revision={revision!r:.80} is only for an id of the Hub, such as 'org/model', and "
                f"{name!r:.200} is {'a path' if is_there else 'not one'}"
            )
    elif is_there:
        return _Source(Path(name))
    elif name == "demo":
        return _Source(_DEMO)
    elif (named := _encoding_named(name)) is not None:
        return _Source(None, encoding or named)
    if name.startswith(HUB) or revision is not None:
        snapshot = find_snapshot(name.removeprefix(HUB), revision, allow_download=allow_download)
        return _Source(snapshot.folder, revision=snapshot.commit)
    return _from_hub(name, allow_download=allow_download)


def _hint(given: object) -> str:
    """Return the end of a message: how to use ``given``, if it is a tokenizer."""
    if isinstance(given, Tokenizer):
        return "; it is already a tokenizer of streamdec: use it directly"
    library = type(given).__module__.partition(".")[0]
    if library == "tokenizers" or hasattr(given, "backend_tokenizer"):
        return "; streams accept it as it is"
    return "; write TiktokenTokenizer(encoding)" if library == "tiktoken" else ""


def _from_hub(name: str, *, allow_download: bool) -> _Source:
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
    return _Source(snapshot.folder, revision=snapshot.commit)


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _encoding_named(name: str) -> str | None:
    """Return the encoding called ``name``, or the encoding of that model, or None."""
    if name in ENCODINGS:
        return name
    model = _model_of_openai(name)
    return None if model is None else encoding_of_model(model)


def _model_of_openai(name: str) -> str | None:
    """Return ``name`` without OpenAI as its organisation. None if it has another one."""
    # Models of other organisations may have the same names as OpenAI's.
    organisation, _, model = name.rpartition("/")
    return model if organisation in _OF_OPENAI else None


# --- from a path to a tokenizer -------------------------------------------------------------------


def _loaded(
    source: _Source,
    found: Detected | None,
    options: FastOptions,
    encoding: str | EncodingSpec | None,
    apply_tokenizer_config: bool | None,
    *,
    allow_download: bool,
) -> Loaded:
    """Load the tokenizer of ``source`` and set its report."""
    started = perf_counter()
    reason = ""
    if source.path is None or found is None:
        from streamdec.backends.tiktoken import TiktokenTokenizer

        tokenizer: Loaded = TiktokenTokenizer.named(source.encoding, allow_download=allow_download)
    else:
        if found.format == "huggingface" and encoding is None:
            return HybridTokenizer.from_file(
                found.path,
                options,
                apply_tokenizer_config=apply_tokenizer_config,
                is_folder=source.path.is_dir(),
                revision=source.revision,
            )
        is_folder = source.path.is_dir()
        applies = is_folder if apply_tokenizer_config is None else apply_tokenizer_config
        assembled = _assembled(found, applies=applies) if encoding is None else None
        if isinstance(assembled, Assembled):
            return HybridTokenizer.from_assembled(
                assembled, found.path, options, form=found.format, revision=source.revision
            )
        reason = found.description if found.format == "transformers" else assembled or ""
        if reason:
            folder = found.path if found.path.is_dir() else found.path.parent
            tokenizer = load_by_transformers(folder, reason)
        else:
            tokenizer = _opened(found, encoding)
        if applies and encoding is None:
            compare(tokenizer, found.path, is_error=found.format == "tiktoken")
    libraries = ("transformers",) if reason else _LIBRARIES.get(tokenizer.tokenizer_type, ())
    tokenizer.report = TokenizerReport(
        format="tiktoken" if found is None else found.format,
        requested=options.fast,
        requested_by=options.requested_by,
        active=tokenizer.tokenizer_type,
        reason=reason or _reason(tokenizer, found),
        versions=versions_of(("tokenizers", *libraries)),
        sha256=getattr(tokenizer, "sha256", None),
        revision=source.revision,
        seconds={tokenizer.tokenizer_type: perf_counter() - started},
    )
    if options.strict:
        what = "strict=True needs a tokenizer.json, the only format that fastokens encodes for"
        raise TokenizerLoadError(f"{tokenizer.name!r}: {what}")
    return tokenizer


def _assembled(found: Detected, *, applies: bool) -> Assembled | str | None:
    """Return a tokenizer.json of a SentencePiece model and the files beside it.

    None if the library reads the file alone, and the reason as a str if only transformers can make
    the tokenizer of the folder.
    """
    if found.format != "sentencepiece" or not applies:
        return None
    folder = found.path.parent
    if (folder / "vocab.json").is_file():
        return "its ids are those of vocab.json, not those of the SentencePiece model"
    return from_sentencepiece(found.path) if has_config(folder) else None


def _opened(found: Detected, encoding: str | EncodingSpec | None) -> Loaded:
    """Load a file that is not a tokenizer.json."""
    if found.format == "unsupported":
        what = f"found {found.description}; supported: {SUPPORTED}"
        raise TokenizerLoadError(f"{str(found.path)!r}: {what}")
    if encoding is not None and found.format != "tiktoken":
        raise TokenizerLoadError(
            f"{str(found.path)!r}: remove encoding=, which is only for rank files; this is "
            f"{found.description}"
        )
    if found.format == "tekken":
        from streamdec.backends.tekken import TekkenTokenizer

        return TekkenTokenizer(found.path)
    if found.format == "tiktoken":
        from streamdec.backends.tiktoken import TiktokenTokenizer

        return TiktokenTokenizer(found.path, encoding=encoding)
    if found.format == "sentencepiece":
        from streamdec.backends.sentencepiece import SentencePieceTokenizer

        return SentencePieceTokenizer(found.path)
    from streamdec.backends.gguf import GGUFTokenizer

    return GGUFTokenizer(found.path)


def _reason(tokenizer: Loaded, found: Detected | None) -> str:
    """Return why the library encodes, for the report."""
    if found is None or found.format == "tiktoken":
        kind = "" if found is None else "a rank file of "
        return f"{kind}the encoding {getattr(tokenizer, 'encoding_name', '')}"
    if found.format == "gguf":
        encodes = getattr(tokenizer, "encodes", "").removeprefix("no: ")
        return f"a GGUF file, whose encoding is {encodes}"
    return found.description


_LIBRARIES = {
    "tiktoken": ("tiktoken",),
    "sentencepiece": ("sentencepiece",),
    "gguf": ("sentencepiece",),
}
