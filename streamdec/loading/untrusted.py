"""Try the files of a stranger before they are loaded.

In: a path, its format and the options of loading. Out: these options with the trial, which has
passed, or an error.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from streamdec.errors import MissingExtraError
from streamdec.fastpath.options import FastOptions
from streamdec.loading.detect import Detected
from streamdec.loading.places import Place
from streamdec.tokenizers.encodings import EncodingSpec
from streamdec.tokenizers.trial import MAX_COUNTED, Trial


def tried(
    place: Place,
    found: Detected | None,
    options: FastOptions,
    apply_tokenizer_config: bool | None,
) -> FastOptions:
    """Load a file in a child process, and return ``options`` with the trial.

    Args:
        place: Where it is; the name of an encoding needs no trial.
        found: Its format.
        options: When fastokens is built.
        apply_tokenizer_config: As for ``load_tokenizer``.

    Raises :class:`~streamdec.TokenizerLoadError`, and the errors of loading.
    """
    if place.path is None or found is None or found.format == "unsupported":
        return options
    encoding: Any = place.encoding
    if isinstance(encoding, EncodingSpec):
        special = dict(encoding.special_tokens)
        encoding = {**vars(encoding), "special_tokens": special, "files": ()}
    loading = {"apply_tokenizer_config": apply_tokenizer_config, "encoding": encoding}
    size = found.path.stat().st_size if found.path.is_file() else MAX_COUNTED
    # The files beside a SentencePiece model say whether transformers loads it.
    may_import = found.format in ("transformers", "sentencepiece")
    imports = may_import and find_spec("transformers") is not None
    trial = Trial(str(place.path.absolute()), loading, size, imports_transformers=imports)
    try:
        trial.run(fast=options.fast == "now")
    except MissingExtraError:  # only transformers can make the tokenizer
        if imports or find_spec("transformers") is None:
            raise
        replace(trial, imports_transformers=True).run(fast=False)
    return replace(options, trial=trial)
