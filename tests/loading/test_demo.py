"""The tokenizer in the package, with which the pages' examples run from any folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamdec import load_tokenizer
from streamdec.core.shared_tables import route_of
from tests.support.pages import DEMO
from tests.support.zoo import ZOO


def test_the_demo_is_loaded_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tokenizer = load_tokenizer("demo", fast="off")
    ids = tokenizer.encode("An owl 🦉 is up.").ids
    assert tokenizer.decode(ids) == "An owl 🦉 is up."
    assert (route_of(tokenizer), tokenizer.vocab_size) == ("bytes", 1200)
    assert repr(tokenizer) == "HybridTokenizer('demo', ByteLevel)"
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n"
    assert tokenizer.special_tokens.eos_token == "<|im_end|>"


def test_a_path_of_this_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DEMO, "demo")
    other = ZOO["wordpiece"]()
    other.save("demo/tokenizer.json")
    found = load_tokenizer("demo", fast="off", apply_tokenizer_config=False)  # as other names
    assert found.fingerprint != load_tokenizer(DEMO, fast="off").fingerprint
