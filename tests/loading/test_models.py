from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.backends.rank_files import encoding_of_model
from streamdec.errors import TokenizerLoadError
from streamdec.loading.places import VARIABLE
from streamdec.tokenizers import HybridTokenizer
from tests.support.files import write_json
from tests.support.zoo import ZOO


def test_every_encoding_that_tiktoken_has_for_a_model_is_known() -> None:
    theirs = pytest.importorskip("tiktoken.model")
    for name, encoding in theirs.MODEL_TO_ENCODING.items():
        assert encoding_of_model(name) == encoding
    for prefix, encoding in theirs.MODEL_PREFIX_TO_ENCODING.items():
        assert encoding_of_model(f"{prefix}2025") == encoding


HERE = "; the current folder is "
UNKNOWN = "; it is not the name of a known model or encoding"
INSTALL = "; models of OpenAI need tiktoken: pip install 'streamdec[tiktoken]'"


@pytest.mark.parametrize(
    ("name", "said", "not_said"),
    [
        ("gpt-4o", [HERE, UNKNOWN, INSTALL], []),
        ("openai/gpt-4o", [HERE, UNKNOWN, INSTALL, "; from the Hub: "], []),
        ("x" * 101, [HERE], [UNKNOWN]),
        ("./no/model", [HERE], [UNKNOWN]),
        ("/no/model", [], [HERE, UNKNOWN, "from the Hub"]),
    ],
)
def test_a_name_that_is_nothing_says_where_it_was_looked_for(
    name: str, said: list[str], not_said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(name)
    told = str(caught.value)
    assert told.startswith(f"{name!r}: No such file or directory") or name[0] == "."
    assert [part for part in (*said, *not_said) if part in told] == said
    (tmp_path / "gone").rmdir()
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(name)
    assert HERE not in str(caught.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ZOO["byte_level_trained"]().save(str(tmp_path / "mine.json"))
    return tmp_path / "mine.json"


def named(name: str, **options: Any) -> str:
    tokenizer = load_tokenizer(name, **options)
    assert isinstance(tokenizer, HybridTokenizer)
    return tokenizer.name


def test_a_table_maps_names_to_paths_and_names(file: Path) -> None:
    models: dict[str, str | Path] = {"our-model": file, "small": "demo"}
    assert named("our-model", models=models) == str(file)
    assert named("small", models=models) == "demo"
    assert named("demo", models={}) == "demo"


def test_the_environment_names_a_table(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_json(file.parent / "models.json", {"our-model": str(file)})
    monkeypatch.setenv(VARIABLE, str(table))
    assert named("our-model") == str(file)
    with pytest.raises(TokenizerLoadError, match="our-model"):
        load_tokenizer("our-model", models={})


def test_a_bad_table_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TokenizerLoadError, match="the table of models has 5 for 'm'"):
        load_tokenizer("m", models={"m": 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="models must be a dict of names to paths, not list"):
        load_tokenizer("m", models=["m"])  # type: ignore[arg-type]
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    with pytest.raises(TokenizerLoadError, match=r"STREAMDEC_MODELS names .*none\.json"):
        load_tokenizer("m")
    (tmp_path / "none.json").write_text("[]", "utf-8")
    with pytest.raises(TokenizerLoadError, match=r"none\.json': not a JSON object"):
        load_tokenizer("m")
