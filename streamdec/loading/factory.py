"""``load_tokenizer``: from a path or a name to a tokenizer ready to stream.

In: a path, the name of an encoding or of a model, or an id of the Hugging Face Hub. Out: a
backend's tokenizer, whose compiled table was compared with its own ``decode``, and a report on how
it was loaded. What loads is imported by the call, so importing the function is cheap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from streamdec import hooks
from streamdec.errors import TokenizerLoadError
from streamdec.mistakes import check_flag

if TYPE_CHECKING:
    from streamdec.chat.tokenizer_chat import TokenizerChat
    from streamdec.loading.detect import Detected
    from streamdec.tokenizers._base import BaseTokenizer
    from streamdec.tokenizers._chat import NewTemplate
    from streamdec.tokenizers.encodings import EncodingSpec
    from streamdec.tokenizers.tokenizer_report import FastMode, LoadedTokenizer

__all__ = ["load_tokenizer"]


def load_tokenizer(
    path_or_name: str | os.PathLike[str],
    *,
    fast: FastMode | None = None,
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

    If there is no such path, it is a name: ``"demo"``, a small tokenizer in this package; of an
    encoding (``"cl100k_base"``); of a model that tiktoken knows (``"gpt-4o"``); or the id of a
    repository on the Hugging Face Hub (``"org/model"``, or ``"hf://org/model"`` to exclude the
    others). The files of a name are taken from the caches of tiktoken and huggingface_hub.

    Args:
        path_or_name: a path, or a name as above.
        fast: when fastokens is built: in the ``"background"``, when that is worth it; ``"now"``; or
            never, ``"off"``. See :class:`~streamdec.tokenizers.HybridTokenizer`. None means the
            environment's ``STREAMDEC_FAST``, else ``"background"``. It encodes for a tokenizer.json
            and for SentencePiece folders whose files name no class.
        apply_tokenizer_config: whether the files beside a tokenizer.json or a SentencePiece model
            are applied, as transformers 5 does. None means True for a folder and False for a file.
            If the tokenizer of a folder is made by code in it and the files contradict each other,
            loading raises TokenizerLoadError.
        encoding: for a rank file only: a name in
            :data:`~streamdec.tokenizers.encodings.ENCODINGS`, or an EncodingSpec. An unknown file
            needs it; for a file that several encodings share, the default is the first.
        revision: a branch, a tag or a commit of a repository on the Hub; ``main`` by default.
        allow_download: whether files that are not in a cache may be fetched.
        chat_template: a chat template, as for ``set_chat_template``: its text, the path of a file,
            several templates by name, or a :class:`~streamdec.chat.ChatTemplate`. None means the
            model's own.
        untrusted: whether the files may come from a stranger. They are then loaded in a child
            process with limited memory and time first, which takes about 0.3 seconds more. None
            means True for a repository on the Hub. The page on security says what is not bounded.
        models: names of models, each with the path or name to load for it. None means the table in
            the JSON file that the environment's ``STREAMDEC_MODELS`` names, if it is set.

    Returns:
        A new tokenizer, which threads may share. Its ``report`` says what was requested, which
        library encodes, and why. ``tokenizer_config_changes`` has what the files beside a
        tokenizer.json changed, and is None if they were not read.

    Loading decodes a sample of ids with streamdec's table and with the tokenizer's own ``decode``,
    and warns (:class:`~streamdec.StreamdecWarning`) if the texts differ. It also warns of added
    tokens that are decoded as other text than their own (:mod:`streamdec.backends.caveats`).

    Raises:
        TokenizerLoadError: the path does not exist or cannot be read, no backend supports its
            format, or the files of a name are not in a cache and may not be downloaded. The message
            says what to do.
        MissingExtraError: the library for the format is missing.
        ChatTemplateError: ``chat_template`` cannot be read.
        TypeError: ``path_or_name``, a flag or ``models`` is of another type.
        ValueError: ``fast`` is invalid.

    >>> from streamdec import load_tokenizer
    >>> tokenizer = load_tokenizer("demo")
    >>> tokenizer
    HybridTokenizer('demo', ByteLevel)
    >>> tokenizer.decode(tokenizer.encode("naïve café").ids)
    'naïve café'
    >>> load_tokenizer("path/to/tekken.json").report.format
    'tekken'
    """
    from streamdec.backends.caveats import warn_of_caveats
    from streamdec.backends.hybrid import mode_of
    from streamdec.core.shared_tables import route_of
    from streamdec.loading.detect import detect_format
    from streamdec.loading.opening import open_tokenizer, warn_of_id
    from streamdec.loading.places import DEMO, looked_up, place_of

    if not isinstance(path_or_name, (str, bytes, os.PathLike)):
        raise TypeError(f"path_or_name must be a path or a name, not {path_or_name!r:.80}")
    name = os.fsdecode(path_or_name)
    if not name:  # pathlib would read it as the working directory
        raise TokenizerLoadError("path_or_name is empty; give a path or a name like 'org/model'")
    check_flag("allow_download", allow_download)
    if apply_tokenizer_config is not None:
        check_flag("apply_tokenizer_config", apply_tokenizer_config)
    if untrusted is not None:
        check_flag("untrusted", untrusted)
    mode = mode_of(fast)
    started = perf_counter()
    loaded: BaseTokenizer | None = None
    trial: Callable[[], None] | None = None
    failed: str | None = None
    try:
        asked = looked_up(name, models)
        place = place_of(asked, encoding, revision, allow_download=allow_download)
        found = None if place.path is None else detect_format(place.path)
        if untrusted or (untrusted is None and place.revision is not None):
            from streamdec.loading.untrusted import tried

            trial = tried(place, found, mode, apply_tokenizer_config)
        loaded = open_tokenizer(
            place, found, mode, apply_tokenizer_config, trial, allow_download=allow_download
        )
        loaded._chat = _chat_of(loaded, found, chat_template)
        if place.path == DEMO:
            loaded.name = "demo"
        if place.revision is not None:
            warn_of_id(asked, loaded)
        route_of(loaded)  # compares the table with decode
        warn_of_caveats(loaded)
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        _tell(name, loaded, perf_counter() - started, failed)
    return loaded


def _chat_of(
    loaded: BaseTokenizer, found: Detected | None, given: NewTemplate | None
) -> TokenizerChat:
    """Return the source of its chat template, which is read later."""
    from streamdec.chat.tokenizer_chat import TokenizerChat

    folder = None
    if found is not None:
        folder = found.path if found.format == "transformers" else found.path.parent
    gguf = Path(loaded.name) if loaded.report.format == "gguf" else None
    return TokenizerChat(folder, gguf=gguf, template=given)


def _tell(name: str, tokenizer: BaseTokenizer | None, seconds: float, failed: str | None) -> None:
    """Report one call to the hooks."""
    if not hooks.installed:  # a vocabulary takes time to count
        return
    if tokenizer is None:
        event = hooks.Loaded("", name, "", seconds, 0, failed)
    else:
        kind, form = tokenizer.tokenizer_type, tokenizer.report.format
        event = hooks.Loaded(kind, name, form, seconds, tokenizer.vocab_size, failed)
    hooks.tell(hooks.installed, "loaded", event)
