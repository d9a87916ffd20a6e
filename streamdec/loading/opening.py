"""From a file or folder to a tokenizer, checked and with its report.

In: a :class:`~streamdec.loading.places.Place` and its format. Out: the tokenizer of a backend,
which is imported when a file has its format.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from streamdec.backends.caveats import warn_of_caveats
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.chat.tokenizer_chat import TokenizerChat
from streamdec.core.shared_tables import route_of
from streamdec.errors import TokenizerLoadError
from streamdec.fastpath.options import FastOptions
from streamdec.folders.agreement import compare
from streamdec.folders.apply_tokenizer_config import NotFollowedError
from streamdec.folders.folder_tokens import has_config
from streamdec.loading.detect import Detected
from streamdec.loading.places import DEMO, Place
from streamdec.tokenizers._chat import NewTemplate
from streamdec.tokenizers.tokenizer_report import TokenizerReport, versions_of

if TYPE_CHECKING:
    from streamdec.backends.gguf import GGUFTokenizer
    from streamdec.backends.huggingface import HuggingFaceTokenizer
    from streamdec.backends.sentencepiece import SentencePieceTokenizer
    from streamdec.backends.tiktoken import TiktokenTokenizer
    from streamdec.backends.transformers_object import TransformersTokenizer
    from streamdec.folders.assembled import Assembled
    from streamdec.tokenizers.encodings import EncodingSpec

    Loaded = (
        TiktokenTokenizer
        | SentencePieceTokenizer
        | GGUFTokenizer
        | HuggingFaceTokenizer  # and HybridTokenizer
        | TransformersTokenizer
    )

SUPPORTED = (
    "a Hugging Face tokenizer.json (of any name), a Tekken file, a tiktoken rank file, a "
    "SentencePiece model, a GGUF file, or a folder that has one"
)


def open_tokenizer(
    place: Place,
    found: Detected | None,
    options: FastOptions,
    encoding: str | EncodingSpec | None,
    apply_tokenizer_config: bool | None,
    *,
    allow_download: bool,
    chat_template: NewTemplate | None,
) -> Loaded:
    """Return the tokenizer of ``place``, with its chat template and its report.

    ``found`` is its format. The other arguments are those of load_tokenizer.
    """
    loaded = _loaded(
        place, found, options, encoding, apply_tokenizer_config, allow_download=allow_download
    )
    loaded._chat = _chat_of(loaded, place.path, chat_template)
    if place.path == DEMO:
        loaded.name = "demo"
    route_of(loaded)
    warn_of_caveats(loaded)
    return loaded


def _chat_of(loaded: Loaded, path: Path | None, given: NewTemplate | None) -> TokenizerChat:
    """Return the source of its chat template, which is read later."""
    if path is None:
        return TokenizerChat(None, template=given)
    folder = path if path.is_dir() else path.parent
    gguf = Path(loaded.name) if loaded.report.format == "gguf" else None
    return TokenizerChat(folder, gguf=gguf, template=given)


def _loaded(
    place: Place,
    found: Detected | None,
    options: FastOptions,
    encoding: str | EncodingSpec | None,
    apply_tokenizer_config: bool | None,
    *,
    allow_download: bool,
) -> Loaded:
    """Load the tokenizer of ``place`` and set its report."""
    started = perf_counter()
    reason = ""
    if place.path is None or found is None:
        from streamdec.backends.tiktoken import TiktokenTokenizer

        tokenizer: Loaded = TiktokenTokenizer.named(place.encoding, allow_download=allow_download)
    else:
        is_folder = place.path.is_dir()
        applies = is_folder if apply_tokenizer_config is None else apply_tokenizer_config
        assembled = _assembled(found, applies=applies) if encoding is None else None
        reason = found.description if found.format == "transformers" else ""
        try:
            if found.format == "huggingface" and encoding is None:
                return HybridTokenizer.from_file(
                    found.path,
                    options,
                    apply_tokenizer_config=apply_tokenizer_config,
                    is_folder=is_folder,
                    revision=place.revision,
                )
            if isinstance(assembled, str):
                reason = assembled
            elif assembled is not None:
                return HybridTokenizer.from_assembled(
                    assembled, found.path, options, form=found.format, revision=place.revision
                )
        except NotFollowedError as error:
            reason = str(error)
        if reason:
            from streamdec.loading.by_transformers import load_by_transformers

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
        revision=place.revision,
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
    from streamdec.folders.assembled import from_sentencepiece

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
    return found.description


_LIBRARIES = {
    "tiktoken": ("tiktoken",),
    "sentencepiece": ("sentencepiece",),
}
