"""Ids of the Hub: from the cache first, and downloaded only if that was allowed.

The cache is read by the real client; nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import MissingExtraError, StreamdecWarning, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from streamdec.loading.places import find_snapshot, is_hub_id
from streamdec.tokenizers._base import BaseTokenizer
from tests.support.files import tekken, write_files
from tests.support.zoo import ZOO

huggingface_hub = pytest.importorskip("huggingface_hub")

COMMIT, OLDER = "c" * 40, "0" * 40
TOKENIZER = ZOO["byte_level_trained"]().to_str().encode()
FILES = {
    "tokenizer.json": TOKENIZER,
    "tokenizer_config.json": b'{"eos_token": "<eos>"}',
    "model.safetensors": b"weights, which are not needed here",
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no network."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "tiktoken"))
    monkeypatch.delenv("STREAMDEC_FAST", raising=False)
    return tmp_path / "hub"


def fill(cache: Path, repo: str, files: dict[str, bytes], commit: str = COMMIT) -> Path:
    """Put a snapshot into the cache, as huggingface_hub lays it out."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    write_files(folder, {"refs/main": commit})
    return write_files(folder / "snapshots" / commit, files)


def load(name: str, **options: Any) -> BaseTokenizer:
    """Load a tokenizer without a trial; test_untrusted.py has what is tried."""
    return load_tokenizer(name, fast="off", untrusted=False, **options)  # type: ignore[return-value]


def test_a_snapshot_of_the_cache_is_taken(cache: Path) -> None:
    snapshot = fill(cache, "org/gpt-4o", FILES)
    for name in ("org/gpt-4o", "hf://org/gpt-4o"):
        tokenizer = load(name)
        assert tokenizer.report.revision == COMMIT
        assert tokenizer.special_tokens.eos_token == "<eos>"
        assert str(snapshot) in repr(tokenizer)
    with pytest.raises(TokenizerLoadError, match="the rank file of o200k_base is not in the cache"):
        load("openai/gpt-4o")


@pytest.mark.parametrize(
    ("repo", "cls", "is_warned"),
    [
        ("DeepSeek-AI/deepseek-coder-7b", "GPTNeoXTokenizer", True),
        ("deepseek-ai/deepseek-coder-7b", "PreTrainedTokenizerFast", False),
        ("org/deepseek-coder-7b", "GPTNeoXTokenizer", False),
    ],
)
def test_a_name_whose_class_transformers_ignores(
    repo: str, cls: str, is_warned: bool, cache: Path
) -> None:
    config = json.dumps({"tokenizer_class": cls}).encode()
    folder = fill(cache, repo, {"tokenizer.json": TOKENIZER, "tokenizer_config.json": config})
    message = f"transformers ignores the class of {repo}, {cls}: ids and text may differ"
    with pytest.warns(StreamdecWarning, match=message) if is_warned else nullcontext():
        load(repo)
    load_tokenizer(folder, fast="off")


def test_a_revision_is_one_of_the_hub(cache: Path, tmp_path: Path) -> None:
    fill(cache, "org/model", {"tekken.json": json.dumps(tekken()).encode()}, OLDER)
    fill(cache, "org/model", FILES)
    old = load("org/model", revision=OLDER)
    assert (old.report.format, old.report.revision) == ("tekken", OLDER)
    assert load("org/model", revision="main").report.revision == COMMIT
    with pytest.raises(TokenizerLoadError, match="revision 'v2': it is not in the local cache"):
        load("org/model", revision="v2")
    for name in (str(tmp_path), "a/b/c"):
        with pytest.raises(TokenizerLoadError, match="'main' is only for an id of the Hub"):
            load(name, revision="main")


def test_a_folder_here_comes_before_an_id(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cache, "org/model", FILES)
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "org" / "model" / "tekken.json").write_text(json.dumps(tekken()))
    monkeypatch.chdir(tmp_path)
    assert load("org/model").report.format == "tekken"
    assert load("hf://org/model").report.format == "huggingface"


@pytest.mark.usefixtures("cache")
def test_the_error_for_a_model_outside_the_cache_says_what_to_do() -> None:
    message = "'org/model' of the Hugging Face Hub: it is not in the local cache; downloads are not"
    with pytest.raises(TokenizerLoadError, match=message):
        load_tokenizer("hf://org/model")
    with pytest.raises(TokenizerLoadError, match=rf"'org/model': No such file.*; .*{message}"):
        load_tokenizer("org/model")
    with pytest.raises(TokenizerLoadError, match="is not an id of the Hub"):
        load_tokenizer("hf://org/model/file")
    with pytest.raises(TokenizerLoadError, match=r"the download failed: .+; give the path of a"):
        load_tokenizer("org/model", allow_download=True)


def test_a_snapshot_without_a_tokenizer_says_what_is_there(cache: Path) -> None:
    fill(cache, "org/model", {"config.json": b"{}"})
    message = r"a folder with config\.json but no tokenizer\.json; downloads are not allowed"
    with pytest.raises(TokenizerLoadError, match=message):
        find_snapshot("org/model")


def test_without_the_library_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamdec\[hub\]'"):
        load_tokenizer("hf://org/model")
    with pytest.raises(TokenizerLoadError, match=r"No such file.*pip install 'streamdec\[hub\]'"):
        load_tokenizer("org/model")


def test_which_names_can_be_ids_of_the_hub() -> None:
    names = ["org/model", "Qwen/Qwen3-0.6B", "gpt2", "o" * 96 + "/m"]
    others = ["", "a/b/c", "./model", "../model", "/model", "org/", "org/model.git", "org/model."]
    others += ["org/mo del", "o" * 97 + "/m", "{}"]
    assert [name for name in names + others if is_hub_id(name)] == names


def test_only_what_is_allowed_is_downloaded_and_only_tokenizers(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = huggingface_hub.snapshot_download

    def download(repo: str, *, allow_patterns: list[str], **options: Any) -> str:
        if not options["local_files_only"]:
            names = [name for name in FILES if any(fnmatch(name, p) for p in allow_patterns)]
            fill(cache, repo, {name: FILES[name] for name in names})
        options["local_files_only"] = True
        return str(honest(repo, allow_patterns=allow_patterns, **options))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(TokenizerLoadError, match="downloads are not allowed"):
        load("org/model")
    assert not cache.exists()
    found = load("org/model", allow_download=True)
    assert found.report.sha256 == hashlib.sha256(TOKENIZER).hexdigest()
    names = {path.name for path in cache.glob("models--org--model/snapshots/*/*")}
    assert names == {"tokenizer.json", "tokenizer_config.json"}
    monkeypatch.setattr(huggingface_hub, "snapshot_download", honest)
    again = load("org/model", allow_download=True)
    assert again.report.revision == COMMIT
