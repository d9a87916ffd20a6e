"""Each tokenizer class is loaded as transformers loads it, or with a warning, or not at all."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers

from streamdec import load_tokenizer
from streamdec.backends.gguf_cutting import CUTTING, ESCAPED, ONLY_DECODED, RAW
from streamdec.errors import EncodeError, TokenizerLoadError
from streamdec.folders.transformers_facts import facts
from tests.support.files import small_gguf
from tests.support.made_folders import FORMS, state_of, write_folder

DATA = Path(__file__).parent / "data" / "matrix.jsonl"
"""Made by ``scripts/make_tokenizer_matrix.py``, with the results of transformers."""
ABOUT, *ROWS = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
STATES = {"equal", "warned", "refused"}

pytest.importorskip("sentencepiece")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["class"])
def test_a_class_is_in_the_filed_state(row: dict[str, Any], tmp_path: Path) -> None:
    found, why = {}, {}
    for form in FORMS:
        folder = tmp_path / form.replace(".", "_")
        folder.mkdir()
        write_folder(folder, row["class"], form, row["kind"])
        theirs = row["theirs"].get(form)
        found[form], why[form] = state_of(folder, theirs if isinstance(theirs, dict) else None)
    assert found == row["states"]
    assert {form: reason for form, reason in why.items() if reason} == row["why"]
    assert STATES.issuperset(found.values())


def test_every_class_is_filed() -> None:
    known = facts()
    assert ABOUT["transformers"] == known.version
    classes = {row["class"] for row in ROWS}
    assert classes >= {*known.classes, *known.classes_of_v4, *known.class_of_model.values()}
    states = [state for row in ROWS for state in row["states"].values()]
    assert STATES.issubset(states)


def test_a_class_that_nobody_knows_is_never_assumed() -> None:
    states = {row["class"]: row["states"] for row in ROWS}
    found = {name: facts().tokenizer_class(name) for name in states}
    unknown = [name for name, cls in found.items() if cls is None or cls.how == "unknown"]
    assert "NobodyKnowsTokenizer" in unknown
    assert [name for name in unknown if "equal" in states[name].values()] == []


GGUF = json.loads((DATA.parent / "gguf.json").read_text("utf-8"))
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = {
    "gpt2": (["<unk>", "he", "ĠÃ©", *LETTERS], "he é"),
    "rwkv": (["<unk>", "he", r" \xc3\xa9"], "he é"),
    **dict.fromkeys(("llama", "bert", "t5", "gemma4"), (["<unk>", "he", "\u2581é"], "he é")),
}
"""Tokens of each kind, and the text of the second and the third."""

TEXT = (
    "Hello, 'RE don't 1,000.5\n\n \t\r\n Größe e\u0301 ½ Привет。你好 नमस्ते"
    " def f(x):\n\treturn 😀👩‍👦 ١٢٣"
)


def gguf_state(path: Path, kind: str, **values: Any) -> tuple[str, Any]:
    """Return the state in which a file is decoded, and its tokenizer."""
    tokens, text = TOKENS.get(kind, TOKENS["gpt2"])
    if values.get("pre") in ESCAPED:
        tokens, text = TOKENS["gemma4"]
    types: Any = {"token_type": [2] + [1] * (len(tokens) - 1), "scores": None}
    path.write_bytes(small_gguf(model=kind, tokens=tokens, **types, **values))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            tokenizer = load_tokenizer(path)
        except TokenizerLoadError:
            return "refused", None
    same = tokenizer.decode([1, 2]) == text
    return "warned" if told else "equal" if same else "SILENT", tokenizer


@pytest.mark.parametrize("kind", GGUF["kinds"])
def test_a_kind_of_gguf_is_in_the_filed_state(kind: str, tmp_path: Path) -> None:
    assert gguf_state(tmp_path / "a.gguf", kind)[0] == GGUF["kinds"][kind]


@pytest.mark.parametrize("name", GGUF["names"])
def test_a_name_of_gguf_is_in_the_filed_state(name: str, tmp_path: Path) -> None:
    """Every way of cutting keeps the text."""
    filed = GGUF["names"][name]
    state, tokenizer = gguf_state(tmp_path / "a.gguf", "gpt2", pre=name, merges=["h e"])
    assert state == filed["decode"]
    if state == "refused":
        return
    if filed["encode"] == "refused":
        with pytest.raises(EncodeError, match=f"split as '{name}'"):
            tokenizer.encode("he")
        return
    assert tokenizer.encode("he").ids == (1,)
    assert tokenizer.encodes == "yes"
    if name in CUTTING:
        assert tokenizer.decode(tokenizer.encode(TEXT).ids) == TEXT


def test_every_name_of_gguf_is_filed() -> None:
    assert GGUF["names"].keys() >= {*CUTTING, *ONLY_DECODED, *ESCAPED, *RAW}
    assert GGUF["kinds"].keys() >= set(TOKENS)
