"""Tokenizers of every format that ``load_tokenizer`` made know the template of their model."""

from __future__ import annotations

import json
import pickle
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from streamdec.backends.gguf import GGUFTokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError
from streamdec.loading.factory import load_tokenizer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer
from tests.support.files import FORMATS, small_gguf, write_format
from tests.support.pages import DEMO as DEMO_FOLDER
from tests.support.pages import printed_by

pytest.importorskip("tiktoken")
pytest.importorskip("sentencepiece")

USER = [{"role": "user", "content": "hello world"}]
SOURCE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ eos_token }}"
)
DEMO = DEMO_FOLDER / "tokenizer.json"


def load(folder: Path, format_: str = "huggingface", **options: Any) -> LoadedTokenizer:
    """A tokenizer of ``format_`` in ``folder``."""
    path, needed = write_format(folder, format_)
    return load_tokenizer(path, fast="off", **needed, **options)


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_renders_and_encodes(format_: str, tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}", encoding="utf-8")
    tokenizer = load(tmp_path, format_)
    text = tokenizer.apply_chat_template(USER)
    assert text == tokenizer.apply_chat_template(USER, tokenize=False) == "hello world"
    ids = tokenizer.apply_chat_template(USER, tokenize=True)
    assert ids == list(tokenizer.encode(text, add_special_tokens=False))
    assert tokenizer.decode(ids, skip_special_tokens=False).strip() == text
    assert pickle.loads(pickle.dumps(tokenizer)).apply_chat_template(USER) == text


def test_options_for_tensors_are_rejected_and_not_given_to_the_template(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, chat_template="{{ return_dict is defined }}")
    assert tokenizer.apply_chat_template(USER, return_dict=False, padding=False) == "False"
    with pytest.raises(TypeError, match="'return_tensors' is not supported"):
        tokenizer.apply_chat_template(USER, return_tensors="np")


def test_the_files_of_the_folder_are_read_when_the_template_is_needed(tmp_path: Path) -> None:
    tokenizer = load(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(SOURCE, encoding="utf-8")
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert tokenizer.apply_chat_template(USER) == "<s><user>hello world</s>"
    (tmp_path / "chat_template.jinja").write_text("changed", encoding="utf-8")
    assert tokenizer.apply_chat_template(USER) == "<s><user>hello world</s>", "it is read once"
    path = str(tmp_path / "chat_template.jinja")
    assert str(tokenizer.get_chat_template().origin).startswith(path)


def test_a_given_template_wins_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("T", encoding="utf-8")
    other = tmp_path / "other.jinja"
    other.write_text("O", encoding="utf-8")
    for given, text in (
        (other, "O"),
        (str(other), "O"),
        ("{{ 'L' }}", "L"),
        ({"default": "D"}, "D"),
    ):
        tokenizer = load(tmp_path, chat_template=given)
        assert tokenizer.apply_chat_template(USER) == text
    with pytest.raises(ChatTemplateError, match=r"the path of a file, not 'nowhere\.jinja'"):
        load(tmp_path, chat_template="nowhere.jinja")


def test_a_template_may_be_set_and_taken_back(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ strftime_now('%Y') }}", encoding="utf-8")
    tokenizer = load(tmp_path)
    tokenizer.set_chat_template("set {{ x }}")
    assert tokenizer.apply_chat_template(USER, x=1) == "set 1"
    tokenizer.set_chat_template(ChatTemplate("ready", profile="hardened"))
    assert tokenizer.apply_chat_template(USER) == "ready"
    tokenizer.set_chat_template(now=datetime(1999, 1, 1))  # noqa: DTZ001 - as templates get it
    assert tokenizer.apply_chat_template(USER) == "1999"
    tokenizer.set_chat_template("{{ bos_token }}", special_tokens={"bos_token": "B"})
    assert tokenizer.apply_chat_template(USER) == "B"


def test_a_bad_option_leaves_the_template_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("T", encoding="utf-8")
    tokenizer = load(tmp_path)
    with pytest.raises(TypeError, match="unknown option 'mode'; expected profile, now, isolate"):
        tokenizer.set_chat_template("S", mode="x")
    with pytest.raises(TypeError, match="options cannot be given with a ChatTemplate"):
        tokenizer.set_chat_template(ChatTemplate("S"), profile="hardened")
    with pytest.raises(ChatTemplateError):
        tokenizer.set_chat_template("missing.jinja")
    assert tokenizer.apply_chat_template(USER) == "T"


def test_a_gguf_file_carries_its_template_and_its_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(
        small_gguf({"tokenizer.chat_template": SOURCE, "tokenizer.chat_template.tool_use": "T"})
    )
    (tmp_path / "chat_template.jinja").write_text("beside", encoding="utf-8")
    tokenizer = load_tokenizer(path)
    bos, eos = tokenizer.special_tokens.bos_token, tokenizer.special_tokens.eos_token
    assert bos is not None
    assert tokenizer.apply_chat_template(USER) == f"{bos}<user>hello world{eos}"
    assert tokenizer.apply_chat_template(USER, tools=[]) == "T"
    assert str(path) in str(tokenizer.get_chat_template().origin)


@pytest.mark.parametrize("format_", FORMATS)
def test_without_a_template_one_can_be_given_for_each_rendering(
    format_: str, tmp_path: Path
) -> None:
    tokenizer = load(tmp_path, format_)
    text = "{{ messages[0].content }}{{ eos_token }}!"
    found = tokenizer.apply_chat_template(USER, chat_template=text)
    assert found == f"hello world{tokenizer.special_tokens.eos_token or ''}!"
    with pytest.raises(ChatTemplateError, match="no chat template") as raised:
        tokenizer.apply_chat_template(USER)
    told = str(raised.value)
    assert f"{str(tmp_path)!r} has no chat_template.jinja" in told
    assert told.endswith("; pass chat_template= (--template)")
    assert ("tokenizer.chat_template in its metadata" in told) == (format_ == "gguf")


def test_a_tokenizer_that_was_not_loaded_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(small_gguf({"tokenizer.chat_template": "T"}))
    for tokenizer in (HuggingFaceTokenizer(DEMO), GGUFTokenizer(path)):
        for call in (tokenizer.get_chat_template, tokenizer.set_chat_template):
            with pytest.raises(ChatTemplateError, match="was not made by load_tokenizer"):
                call()
        with pytest.raises(ChatTemplateError, match=r"streamdec\.chat\.ChatTemplate renders"):
            tokenizer.apply_chat_template(USER)


def test_messages_of_openais_clients_are_made_what_the_template_takes(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, chat_template="{% for m in messages %}<{{ m.content }}>{% endfor %}")
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    assert tokenizer.apply_chat_template(messages, openai=True) == "<a>"
    assert tokenizer.apply_chat_template(messages) == "<[{'type': 'text', 'text': 'a'}]>"


LOADING = """
import sys
import streamdec
tokenizer = streamdec.load_tokenizer({path!r}, fast="off")
print([name for name in ("jinja2", "streamdec.chat.template") if name in sys.modules])
print(tokenizer.apply_chat_template([{{"role": "user", "content": "Hi"}}]))
"""


def test_loading_needs_no_jinja2_and_reads_no_template(tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path / "tokenizer.json")
    (tmp_path / "chat_template.jinja").write_text("T", encoding="utf-8")
    assert printed_by(LOADING.format(path=str(tmp_path))) == ["[]", "T"]
