"""Strings and tries of a tokenizer.json are bounded before the library reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from streamdec import HuggingFaceTokenizer, TokenizerLoadError, load_tokenizer
from streamdec.tokenizers import _json_bounds
from streamdec.tokenizers._json_bounds import MAX_STRING, check_strings, check_trie
from tests.support.zoo import shared_tokenizers


def document(*pieces: str, **parts: Any) -> str:
    vocab = [[piece, -1.0] for piece in ("<unk>", *pieces)]
    model = {"type": "Unigram", "unk_id": 0, "vocab": vocab}
    return json.dumps({"version": "1.0", "added_tokens": [], **parts, "model": model})


@pytest.mark.parametrize("letter", ["a", '"', "\\", "0", ",", " ", "ü"])
def test_a_piece_that_is_too_long_is_rejected(letter: str) -> None:
    said = f"JSON text: it has a string of .*, and at most {MAX_STRING} are allowed"
    with pytest.raises(TokenizerLoadError, match=said):
        HuggingFaceTokenizer(document("b", letter * 200_000, "c"))
    HuggingFaceTokenizer(document("b", letter * 2_000, "c"))


def test_numbers_and_charsmaps_may_be_long() -> None:
    plain = Tokenizer(models.Unigram([("a", -1.0)], 0, False)).to_str()
    parts = {"x": [1] * 99_999, "normalizer": {"precompiled_charsmap": "A" * 99_999}}
    check_strings(json.dumps({**json.loads(plain), **parts}).encode(), "file")
    check_strings(json.dumps({**json.loads(plain), **parts}, indent=4).encode(), "file")
    with pytest.raises(TokenizerLoadError, match="a string of 99999 bytes"):
        check_strings(
            json.dumps({**json.loads(plain), **parts, "y": "A" * 99_999}).encode(), "file"
        )


@given(
    st.lists(st.text('ab"\\,:0 é') | st.integers(0, 99_999).map(lambda n: "a" * n), max_size=6),
    st.booleans(),
)
def test_every_longer_string_is_found(texts: list[str], is_ascii: bool) -> None:
    content = json.dumps(texts, ensure_ascii=is_ascii).encode()
    longest = max([len(json.dumps(t, ensure_ascii=is_ascii).encode()) - 2 for t in texts] + [0])
    if longest > MAX_STRING:
        with pytest.raises(TokenizerLoadError):
            check_strings(content, "file")
    else:
        check_strings(content, "file")


def test_the_nodes_of_a_trie_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    content = document("abc", "abd", "é", "xyz" * 20).encode()
    nodes = len("<unk>") + 4 + 2 + 60
    monkeypatch.setattr(_json_bounds, "MAX_NODES", nodes)
    check_trie(content, "file")
    monkeypatch.setattr(_json_bounds, "MAX_NODES", nodes - 1)
    with pytest.raises(TokenizerLoadError, match=f"file: .* need {nodes} nodes"):
        check_trie(content, "file")
    with pytest.raises(TokenizerLoadError, match=f"need {nodes} nodes"):
        check_trie(content.replace(b'"vocab"', rb'"\u0076ocab"'), "file")


@pytest.mark.parametrize("key", ["normalizer", "decoder", "added_tokens"])
def test_a_key_that_occurs_often_is_rejected(key: str) -> None:
    value = "[]" if key == "added_tokens" else "{}"
    many = "{" + ",".join([f'"{key}": {value}'] * 20) + "}"
    with pytest.raises(TokenizerLoadError, match=r"JSON text: it has more than \d+ .* named"):
        HuggingFaceTokenizer(document()[:-1] + f', "more": {many}}}')


def _added(text: str, count: int, **flags: bool) -> list[dict[str, Any]]:
    known = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    return [
        {"id": 9 + i, "content": f"{text}{i}", **known, "normalized": True, **flags}
        for i in range(count)
    ]


def _replace(content: str, **pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize(
    ("normalizer", "said"),
    [
        (_replace("b", Regex="(a|aa)+$"), "a regex of the normalizer may take inf steps"),
        (_replace("b", Regex="a+a+$"), "a regex of the normalizer may take .* steps"),
        (_replace("b" * 120, String="a"), "the normalizer may make .* characters of the tokens"),
    ],
)
def test_the_work_of_a_normalizer_on_added_tokens_is_bounded(
    normalizer: dict[str, Any], said: str
) -> None:
    tokens = _added("a" * 1_000, 99)
    with pytest.raises(TokenizerLoadError, match=f"JSON text: {said}"):
        HuggingFaceTokenizer(document("a", normalizer=normalizer, added_tokens=tokens))
    others = _added("a" * 1_000, 99, normalized=False)
    HuggingFaceTokenizer(document("a", normalizer=normalizer, added_tokens=others))


@pytest.mark.parametrize("is_first", [True, False])
def test_another_object_of_this_name_does_not_hide_the_normalizer(is_first: bool) -> None:
    token, *tokens = _added("a" * 1_000, 99)
    decoy = {**token, "normalizer": {"type": "Lowercase"}}
    hostile = {"normalizer": _replace("b", Regex="(a|aa)+$")}
    added = {"added_tokens": [decoy, *tokens]}
    text = document("a", **({**hostile, **added} if is_first else {**added, **hostile}))
    with pytest.raises(TokenizerLoadError, match="a regex of the normalizer may take"):
        HuggingFaceTokenizer(text)


def test_the_work_of_a_decoder_on_the_sample_is_bounded() -> None:
    pieces = ["a" * 9_000 + str(n) for n in range(99)]
    for regex in ("(a|aa)+$", "a+$"):
        with pytest.raises(TokenizerLoadError, match="a regex of the decoder may take"):
            HuggingFaceTokenizer(document(*pieces, decoder=_replace("b", Regex=regex)))
    HuggingFaceTokenizer(document(*pieces, decoder=_replace("b", Regex="a")))
    HuggingFaceTokenizer(document("a", "b c", decoder=_replace("b", Regex=r"\s+$")))


@pytest.mark.parametrize("path", [*shared_tokenizers()], ids=lambda path: path.parent.name)
def test_known_files_are_far_below_the_bounds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_bounds, "MAX_STRING", MAX_STRING // 4)
    check_strings(path.read_bytes(), "file")
    check_trie(path.read_bytes(), "file")


def test_tokens_of_a_config_count_for_the_work_of_a_normalizer(tmp_path: Path) -> None:
    data = {
        "added_tokens": [],
        "normalizer": _replace("x", Regex="(a|aa)+b"),
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
    }
    token = {"content": "a" * 40, "normalized": True, "special": False}
    config = {"added_tokens_decoder": {"2": token}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), "utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(TokenizerLoadError, match="a regex of the normalizer may take"):
        load_tokenizer(tmp_path)
