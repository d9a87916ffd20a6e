"""Folders of tokenizer classes that build their tokenizer; transformers says what it should be."""

from __future__ import annotations

import base64
import json
import os
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.errors import MissingExtraError, StreamdecWarning
from streamdec.folders.class_pipelines import pipeline_of
from streamdec.folders.transformers_facts import facts
from streamdec.tokenizers import HybridTokenizer
from streamdec.tokenizers._base import BaseTokenizer
from tests.support import made_folders
from tests.support.files import write_json

GOLDENS = Path(os.environ.get("CLASS_GOLDENS", Path(__file__).parent / "data" / "classes.jsonl"))
"""Made by ``scripts/make_class_goldens.py``."""
FACTS, *LINES = [json.loads(line) for line in GOLDENS.read_text("utf-8").splitlines()]
ROWS = [row for row in LINES if "config" in row]
SHARED = Path(__file__).resolve().parents[3] / "shared"
FOLDERS = [row for row in LINES if "folder" in row and Path(SHARED, row["folder"]).is_dir()]


def load(folder: Path) -> BaseTokenizer:
    """The tokenizer without transformers, which would make those that are refused here."""
    with made_folders.without_transformers(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamdecWarning)
        return load_tokenizer(folder, fast="off")  # type: ignore[return-value]


def drawn(row: dict[str, Any], path: Path) -> HybridTokenizer | None:
    """The tokenizer of a row; None if only transformers can make it."""
    file, form = FACTS["files"][row["kind"]], row["form"]
    write_json(path / "tokenizer_config.json", row["config"])
    if form == "tokenizer.model":
        (path / form).write_bytes(base64.b64decode(file))
    else:
        write_json(path / form, made_folders.changed(file, row.get("changes", {})))
    try:
        tokenizer = load(path)
    except MissingExtraError:
        return None
    assert isinstance(tokenizer, HybridTokenizer)
    return tokenizer


def seen(tokenizer: BaseTokenizer, ids: list[list[int]]) -> dict[str, Any]:
    """Everything that the goldens have; ``ids`` are decoded after those of the texts."""
    added = made_folders.added_of(tokenizer) if isinstance(tokenizer, HybridTokenizer) else {}
    return {"added": added, **made_folders.seen(tokenizer, ids)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['class']}-{row['form']}")
def test_the_tokenizer_is_that_of_transformers(row: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = drawn(row, tmp_path)
    if tokenizer is None:
        return
    changes = tokenizer.tokenizer_config_changes
    assert changes is not None
    assert not changes.not_followed
    cls = facts().tokenizer_class(row["class"])
    assert cls is not None
    assert changes.built_by == (row["class"] if cls.how.startswith("builds") else "")
    found = seen(tokenizer, row["ids"][len(FACTS["texts"]) :])
    if made_folders.IS_0_22 and '"normalized": true' in json.dumps(row["config"]):
        del found["text"], found["skipped"]  # later ones decode normalized text
    assert found == {key: row[key] for key in found}


OTHERS = {
    ("DPRReaderTokenizer", "strip_accents"): False,
    ("DistilBertTokenizer", "tokenize_chinese_chars"): False,
    ("DistilBertTokenizer", "unk_token"): "<unk>",
    ("DebertaV2Tokenizer", "unk_id"): 2,
    ("AlbertTokenizer", "trim_offsets"): False,
    ("FunnelTokenizer", "wordpieces_prefix"): "@@",
    ("NllbTokenizer", "legacy_behaviour"): True,
    ("RobertaTokenizer", "trim_offsets"): False,
    ("T5Tokenizer", "extra_ids"): 7,
    ("XLNetTokenizer", "unk_id"): 2,
}


@pytest.mark.parametrize(("name", "option"), OTHERS)
def test_an_option_of_a_class_that_is_not_followed(name: str, option: str, tmp_path: Path) -> None:
    pipeline = pipeline_of(name)
    assert pipeline is not None
    file = FACTS["files"][pipeline["pipelines"][0][1]["model"]["type"]]
    size = len(file["model"]["vocab"])
    declared = {str(size + i): {"content": t} for i, t in enumerate(pipeline["added"])}
    config = {"tokenizer_class": name, "added_tokens_decoder": declared}
    write_json(tmp_path / "tokenizer.json", file)
    for value in (pipeline["others"][option], OTHERS[name, option]):
        write_json(tmp_path / "tokenizer_config.json", {**config, option: value})
        why = "no error"
        try:
            load(tmp_path)
        except MissingExtraError as error:
            why = str(error)
        assert (f"its {option} is " in why) == (value == OTHERS[name, option]), why


@pytest.mark.parametrize("role", ["sep_token", "unk_token"])
def test_a_class_whose_token_is_null(role: str, tmp_path: Path) -> None:
    write_json(tmp_path / "tokenizer.json", FACTS["files"]["WordPiece"])
    write_json(
        tmp_path / "tokenizer_config.json", {"tokenizer_class": "MPNetTokenizer", role: None}
    )
    with pytest.raises(MissingExtraError, match=f"MPNetTokenizer: its {role} is null"):
        load(tmp_path)


DIFFERENT = {"tokenizers/mistral-7b-sp-v1"}
"""It has no tokenizer.json, and is as in sentencepiece."""
REFUSED = {"tokenizers/whisper-tiny"}


@pytest.mark.thorough
@pytest.mark.parametrize("row", FOLDERS, ids=lambda row: row["folder"])
def test_a_real_folder_is_that_of_transformers(row: dict[str, Any]) -> None:
    folder = Path(SHARED, row["folder"])
    if row["folder"] in REFUSED:
        with pytest.raises(MissingExtraError, match="in its own way"):
            load(folder)
        return
    tokenizer = load(folder)
    draw = random.Random(1)
    ids = [[draw.randrange(row["size"]) for _ in range(12)] for _ in range(4)]
    found = {key: made_folders.digest(value) for key, value in seen(tokenizer, ids).items()}
    same = found == {key: row[key] for key in found}
    assert same != (row["folder"] in DIFFERENT), found
