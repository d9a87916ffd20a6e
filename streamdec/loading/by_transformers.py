"""Load a folder with transformers, where its class makes the tokenizer.

In: a folder without a ``tokenizer.json``. Out: a :class:`~streamdec.HuggingFaceTokenizer` if
``AutoTokenizer`` makes a fast tokenizer whose class decodes as its backend does, else a
:class:`~streamdec.backends.transformers_object.TransformersTokenizer`. Code of the folder is not
run, and nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.transformers_object import TransformersTokenizer, roles_of
from streamdec.core.shared_tables import tokenizer_for
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._extras import library


def load_by_transformers(folder: Path, reason: str) -> HuggingFaceTokenizer | TransformersTokenizer:
    """Return the tokenizer that transformers makes from ``folder``.

    ``reason`` says why streamdec does not make it, for messages. Raises
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
    tokenizer = tokenizer_for(given)
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return TransformersTokenizer(given, folder)
    tokenizer.name, tokenizer._roles = str(folder), roles_of(given)
    return tokenizer
