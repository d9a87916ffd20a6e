"""Names of models by a table of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.errors import TokenizerLoadError
from streamdec.loading.places import VARIABLE
from streamdec.tokenizers import HybridTokenizer
from tests.support.files import write_json
from tests.support.zoo import ZOO


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
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    with pytest.raises(TokenizerLoadError, match=r"STREAMDEC_MODELS names .*none\.json"):
        load_tokenizer("m")
    (tmp_path / "none.json").write_text("[]", "utf-8")
    with pytest.raises(TokenizerLoadError, match=r"none\.json': not a JSON object"):
        load_tokenizer("m")
