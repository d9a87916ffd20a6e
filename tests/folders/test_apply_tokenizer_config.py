"""What the files beside a tokenizer.json change; transformers says what it should be."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import StreamdecWarning, TokenizerLoadError
from streamdec.fastpath import _probes
from streamdec.folders.apply_tokenizer_config import TokenizerConfigChanges
from streamdec.folders.folder_tokens import read_folder
from streamdec.tokenizers import HybridTokenizer
from tests.support.files import write_files
from tests.support.made_folders import FACTS as CLASS_FACTS
from tests.support.made_folders import IS_0_22, added_of

GOLDENS = Path(__file__).parent / "data" / "tokenizer_configs.jsonl"
"""Made by ``scripts/make_tokenizer_config_goldens.py``."""
SHARED = Path(__file__).resolve().parents[3] / "shared" / "snapshots"
FACTS, *ROWS = [json.loads(line) for line in GOLDENS.read_text("utf-8").splitlines()]
DRAWN = [row for row in ROWS if "files" in row]
OF_SHARED = [row for row in ROWS if "shared" in row] if SHARED.is_dir() else []
CONTRADICTS = pytest.mark.filterwarnings("ignore:.*in other files contradict it")


def folder_of(row: dict[str, Any], path: Path) -> Path:
    if "shared" in row:
        return Path(SHARED, row["shared"])
    tokenizer = FACTS["tokenizer"] | {"added_tokens": row["own"]}
    return write_files(path, {"tokenizer.json": tokenizer, **row["files"]})


def with_config(path: Path, **said: Any) -> Path:
    files = {"tokenizer.json": FACTS["tokenizer"], "tokenizer_config.json": said}
    return write_files(path, files)


def special(content: str, **flags: bool) -> dict[str, Any]:
    return {"content": content, "special": True, "normalized": False, **flags}


@CONTRADICTS
@pytest.mark.parametrize(
    "row", [*DRAWN, *(pytest.param(row, marks=pytest.mark.thorough) for row in OF_SHARED)]
)
def test_tokens_are_those_of_transformers(row: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = load_tokenizer(folder_of(row, tmp_path), fast="off")
    assert isinstance(tokenizer, HybridTokenizer)
    for each in (tokenizer, pickle.loads(pickle.dumps(tokenizer))):
        assert added_of(each) == row["added"]
        assert each.fingerprint == tokenizer.fingerprint
        assert each.tokenizer_config_changes == tokenizer.tokenizer_config_changes
    assert [i for i in map(int, row["added"]) if tokenizer.is_skipped(i)] == row["skipped"]
    if not (IS_0_22 and _turned_normalized(row)):  # 0.23 does not find such a token
        assert list(tokenizer.encode(FACTS["text"], add_special_tokens=False).ids) == row["ids"]


def _turned_normalized(row: dict[str, Any]) -> bool:
    """Whether a token of the file is declared again as one that is searched in normalized text."""
    own = {str(token["id"]): token["normalized"] for token in row.get("own", ())}
    return any(own.get(i) is False and flags[4] for i, flags in row["added"].items())


@pytest.mark.parametrize("load", [HuggingFaceTokenizer, HybridTokenizer, load_tokenizer])
def test_a_folder_has_files_beside_and_a_file_or_a_text_has_none(load: Any, tmp_path: Path) -> None:
    folder = with_config(tmp_path, added_tokens_decoder={"260": special("<tool>")})
    file = folder / "tokenizer.json"
    found = load(folder)
    assert found.token_to_id("<tool>") == 260
    assert found.decode([260]) == ""
    assert found.tokenizer_config_changes == TokenizerConfigChanges(("tokenizer_config.json",))
    assert load(file, apply_tokenizer_config=True).token_to_id("<tool>") == 260
    for bare in (load(file), load(folder, apply_tokenizer_config=False)):
        assert bare.tokenizer_config_changes is None
        assert bare.token_to_id("<tool>") is None
    (folder / "tokenizer_config.json").unlink()
    assert load(folder).tokenizer_config_changes == TokenizerConfigChanges()
    assert load(folder).fingerprint == bare.fingerprint
    if load is HuggingFaceTokenizer:
        for source in (file.read_text("utf-8"), bare._tokenizer):
            with pytest.raises(TypeError, match="apply_tokenizer_config=True needs a path"):
                load(source, apply_tokenizer_config=True)


def test_the_fast_encoder_sees_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastokens")
    monkeypatch.setattr(_probes, "_LONG", 2_000)
    folder = with_config(tmp_path, added_tokens_decoder={"260": special("<tool>")})
    tokenizer = HybridTokenizer(folder, fast="now")
    assert tokenizer.report.active == "fastokens"
    assert tokenizer.encode("<tool>").ids == (260,)


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        ("tokenizer_config.json", "[", "Expecting"),
        ("tokenizer_config.json", "[]", "not a JSON object"),
        ("tokenizer_config.json", '{"added_tokens_decoder": []}', "must be an object, not list"),
        ("tokenizer_config.json", '{"added_tokens_decoder": null}', "an object, not NoneType"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {}}}', "'x' is not a token id"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"1": {}}}', "id 1 has no content"),
        ("tokenizer_config.json", '{"eos_token": "\\ud83d"}', "not valid Unicode"),
        ("special_tokens_map.json", '{"x_token": "\\ud83d"}', "not valid Unicode"),
        ("special_tokens_map.json", "5", "not a JSON object"),
        (
            "added_tokens.json",
            '{"<x>": "5"}',
            "'<x>' must be an integer from 0 to 16777215, not '5'",
        ),
        ("added_tokens.json", '{"<x>": -1}', "not -1"),
        ("added_tokens.json", '{"<x>": true}', "not True"),
    ],
)
def test_a_malformed_config_is_named(name: str, said: str, told: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"tokenizer.json": FACTS["tokenizer"], name: said})
    with pytest.raises(TokenizerLoadError, match=rf"{name}.*{told}.*apply_tokenizer_config=False"):
        load_tokenizer(tmp_path)
    assert load_tokenizer(tmp_path, apply_tokenizer_config=False).vocab_size == 260


IGNORED = {
    "split_special_tokens": (False, True),
    "fix_mistral_regex": (None, True),
    "fast_tokenizer_files": (["tokenizer.json"], ["tokenizer.json", "tokenizer.4.0.0.json"]),
    "auto_map": ({"AutoModel": "a.B"}, {"AutoTokenizer": ["a.B", None]}),
}
"""What is not done here: a value that asks for nothing, and one that does."""


@pytest.mark.parametrize("flag", IGNORED)
def test_what_the_config_asks_for_in_vain_is_named(flag: str, tmp_path: Path) -> None:
    nothing, asked = IGNORED[flag]
    load_tokenizer(with_config(tmp_path, **{flag: nothing}), fast="off")
    with pytest.warns(StreamdecWarning, match=f"may differ from .* transformers: {flag} ") as told:
        tokenizer = load_tokenizer(with_config(tmp_path, **{flag: asked}), fast="off")
    assert len(told) == 1
    assert isinstance(tokenizer, HybridTokenizer)
    changes = tokenizer.tokenizer_config_changes
    assert changes is not None
    assert changes.not_followed.startswith(flag)


@pytest.mark.parametrize("key", ["additional_special_tokens", "extra_special_tokens"])
@pytest.mark.parametrize("is_special", [None, False, True])
def test_a_typed_extra_token_is_special_only_if_it_says_so(
    key: str, is_special: bool | None, tmp_path: Path
) -> None:
    token: dict[str, Any] = {"__type": "AddedToken", "content": "<new>"}
    if is_special is not None:
        token["special"] = is_special
    tokenizer = load_tokenizer(with_config(tmp_path, **{key: [token]}), fast="off")
    new = tokenizer.token_to_id("<new>")
    assert new is not None
    assert tokenizer.decode([new]) == ("" if is_special else "<new>")
    files = {"tokenizer_config.json": {}, "special_tokens_map.json": {key: [token]}}
    tokenizer = load_tokenizer(write_files(tmp_path, files), fast="off")
    assert (tokenizer.decode([new]) == "") == (key == "extra_special_tokens" or bool(is_special))


@pytest.mark.parametrize(("typed", "is_token"), [({"__type": "AddedToken"}, True), ({}, False)])
def test_an_object_without_a_type_is_no_token(
    typed: dict[str, Any], is_token: bool, tmp_path: Path
) -> None:
    folder = with_config(tmp_path, image_token={"content": "<img>", **typed})
    assert (load_tokenizer(folder, fast="off").token_to_id("<img>") is not None) == is_token
    beside = {"special_tokens_map.json": {"image_token": {"content": "<img>"}}}
    loaded = load_tokenizer(write_files(folder, beside), fast="off")
    assert loaded.token_to_id("<img>") is not None


@pytest.mark.parametrize(
    ("declared", "name", "chosen"),
    [
        ("GPT2Tokenizer", "phi3", "RobertaTokenizer"),  # a name whose declared class is wrong
        ("GPT2Tokenizer", "PHI3", "GPT2Tokenizer"),
        ("GPT2Tokenizer", ["phi3"], "GPT2Tokenizer"),
        ("", "", "TokenizersBackend"),
    ],
)
def test_the_class_is_chosen_as_by_transformers(
    declared: str, name: Any, chosen: str, tmp_path: Path
) -> None:
    folder = with_config(tmp_path, tokenizer_class=declared)
    write_files(folder, {"config.json": {"model_type": "roberta", "model_name": name}})
    assert read_folder(folder).chosen.name == chosen


@pytest.mark.parametrize("kind", ["BPE", "WordPiece", "Unigram"])
def test_a_clean_up_that_decode_does_not_do_is_named(kind: str, tmp_path: Path) -> None:
    cleans = "clean_up_tokenization_spaces"
    files = {"tokenizer.json": CLASS_FACTS["files"][kind]}
    load_tokenizer(write_files(tmp_path, files), fast="off")
    for said, warned in (
        ({cleans: False}, False),
        ({cleans: True}, kind != "BPE"),
        ({cleans: True, f"{cleans}_for_bpe_even_though_it_will_corrupt_output": True}, True),
    ):
        folder = write_files(tmp_path, {"tokenizer_config.json": said})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            load_tokenizer(folder, fast="off")
        named = [f"DecodeStream(..., {cleans}=True)" in str(each.message) for each in told]
        assert named == [True] * warned
