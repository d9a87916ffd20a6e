"""Made folders of tokenizer classes, and the state in which streamdec loads them.

The scripts that make the matrix and the goldens share this with the tests that read them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import tokenizers

from streamdec import load_tokenizer
from streamdec.errors import MissingExtraError, TokenizerLoadError
from streamdec.folders.tokenizer_config import ROLES
from tests.support.files import write_files

State = Literal["equal", "warned", "refused", "SILENT"]
FORMS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "both")
FILES = Path(__file__).resolve().parents[1] / "folders" / "data" / "classes.jsonl"
with FILES.open(encoding="utf-8") as _file:
    FACTS: dict[str, Any] = json.loads(_file.readline())
"""A ``tokenizer.json`` for each kind of model, a SentencePiece model, and texts."""
IS_0_22 = tokenizers.__version__.startswith("0.22.")
FLAGS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
_WARNED = "ids and text may differ from those of transformers: "
_REFUSED = re.compile(r"\((.*)\) needs the library transformers")


def changed(file: Any, changes: dict[str, Any]) -> Any:
    """Return the ``tokenizer.json`` of a kind with the changes of a drawn folder."""
    model, parts = file["model"], dict(changes)
    if "unk_id" in parts:
        unk_id, vocab = parts.pop("unk_id"), [*model["vocab"]]
        vocab[unk_id] = [vocab[unk_id][0], parts.pop("unk_score")]
        model = {**model, "unk_id": unk_id, "vocab": vocab}
    return {**file, **parts, "model": model}


def write_folder(folder: Path, name: str, form: str, kind: str) -> None:
    """Write a folder of the class ``name``, whose vocabulary has this form."""
    files = FACTS["files"]
    vocab: dict[str, int] = files["BPE"]["model"]["vocab"]
    content: dict[str, Any] = {"tokenizer_config.json": {"tokenizer_class": name}}
    if form == "tokenizer.json":
        content[form] = files[kind]
    if form in ("tokenizer.model", "both"):
        content["tokenizer.model"] = base64.b64decode(files["sentencepiece"])
    if form == "both":  # other ids than those of the SentencePiece model
        content["vocab.json"] = vocab
    if form == "vocab.json":
        merges = "\n".join(" ".join(pair) for pair in files["BPE"]["model"]["merges"])
        content |= {form: vocab, "merges.txt": f"#version: 0.2\n{merges}\n"}
    if form == "vocab.txt":
        content[form] = "\n".join(files["WordPiece"]["model"]["vocab"]) + "\n"
    write_files(folder, content)


def digest(value: Any) -> str:
    """Return 12 hexadecimal digits for JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def added_of(tokenizer: Any) -> dict[str, list[Any]]:
    """Return the text and the flags of each added token by its id, as the goldens have them."""
    tokens = sorted(tokenizer._tokenizer.get_added_tokens_decoder().items())
    return {str(i): [getattr(token, flag) for flag in FLAGS] for i, token in tokens}


def seen(tokenizer: Any, drawn: list[list[int]]) -> dict[str, Any]:
    """Return what a tokenizer of streamdec does; ``drawn`` are decoded after the ids of texts."""
    special = tokenizer.special_tokens
    roles = {role: text for role in ROLES if (text := getattr(special, role)) is not None}
    ids = [list(tokenizer.encode(text).ids) for text in FACTS["texts"]] + drawn
    return {
        "roles": {role: [text, tokenizer.token_to_id(text)] for role, text in roles.items()},
        "ids": ids,
        "with_special": list(tokenizer.encode(FACTS["texts"][0], add_special_tokens=True).ids),
        "text": [tokenizer.decode(i, skip_special_tokens=False) for i in ids],
        "skipped": [tokenizer.decode(i, skip_special_tokens=True) for i in ids],
    }


@contextmanager
def without_transformers() -> Iterator[None]:
    """While it lasts, transformers cannot be imported.

    ``patch.dict`` would forget the modules that are imported meanwhile, and import them each time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)
        yield


def state_of(folder: Path, theirs: Mapping[str, Any] | None) -> tuple[State, str]:
    """Return the state in which streamdec loads ``folder`` without transformers, and the reason.

    ``theirs`` is what transformers makes of it; None if transformers cannot load it.
    """
    with without_transformers(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            tokenizer = load_tokenizer(folder, fast="off")
        except (TokenizerLoadError, MissingExtraError) as error:
            reason = _REFUSED.search(str(error))
            return "refused", reason[1].partition(" (")[0] if reason else ""
    for one in told:
        _, is_warned, reason_of_warning = str(one.message).partition(_WARNED)
        if is_warned:
            return "warned", reason_of_warning
    if theirs is None:
        return "SILENT", ""
    found = {key: digest(value) for key, value in seen(tokenizer, theirs["drawn"]).items()}
    return ("equal" if found == {key: theirs[key] for key in found} else "SILENT"), ""
