"""The source of a template: which file is used, and its origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError
from tests.support.files import write_files

USER = [{"role": "user", "content": "Hi"}]
CONFIG, LEGACY, FILE = "tokenizer_config.json", "chat_template.json", "chat_template.jinja"
NAMED = "additional_chat_templates"


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        (CONFIG, {"chat_template": "C"}, "C"),
        (LEGACY, {"chat_template": "L"}, "L"),
        (f"{NAMED}/default.jinja", "A", "A"),
    ],
)
def test_the_origin_of_a_template_is_its_file(
    tmp_path: Path, file: str, content: Any, text: str
) -> None:
    template = ChatTemplate.from_snapshot(write_files(tmp_path, {file: content}))
    assert template.render(USER) == text
    assert template.origin.path == tmp_path / file
    assert str(template.origin).startswith(f"{tmp_path / file}: ")


def test_files_for_other_names_alone_lose_the_one_within(tmp_path: Path) -> None:
    files = {CONFIG: {"chat_template": "C"}, f"{NAMED}/rag.jinja": "R"}
    template = ChatTemplate.from_snapshot(write_files(tmp_path, files))
    with pytest.raises(ChatTemplateError, match=r"none is called 'default'; .*: 'rag'"):
        template.render(USER)
    assert template.render(USER, chat_template="rag") == "R"


@pytest.mark.parametrize("text", ["constant", "a b", "{{ 'a/b' }}", "a/\n", "v1.5", ""])
def test_text_that_does_not_look_like_a_path_is_a_template(tmp_path: Path, text: str) -> None:
    template = ChatTemplate.from_snapshot(tmp_path, chat_template=text)
    assert template.render(USER) == ChatTemplate(text).render(USER)


@pytest.mark.parametrize("text", ["a.jinja", "./a", "a/b", "C:\\a", "x.json", "/"])
def test_text_that_looks_like_a_path_is_not_a_template(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        ChatTemplateError, match="chat_template must be a template or the path of a file"
    ):
        ChatTemplate.from_snapshot(tmp_path, chat_template=text)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ChatTemplateError, match="is not a folder"):
        ChatTemplate.from_snapshot(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (CONFIG, "{", CONFIG),
        (CONFIG, "[]", "not a JSON object"),
        (CONFIG, "[" * 100_000, CONFIG),
        (CONFIG, {"chat_template": 7}, "chat_template must be a str"),
        (CONFIG, {"chat_template": [{"name": "a"}]}, "'name' and 'template'"),
        (LEGACY, {"chat_template": {"a": 7}}, "the template 'a' must be a str"),
        (LEGACY, "{", r"chat_template\.json"),
        (FILE, b"\xff\xfe", r"chat_template\.jinja.*codec can't decode"),
        (FILE, "x" * (2**20 + 1), "more than 1048576"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, file: str, content: Any, told: str
) -> None:
    with pytest.raises(ChatTemplateError, match=told) as raised:
        ChatTemplate.from_snapshot(write_files(tmp_path, {file: content}))
    assert str(tmp_path) in str(raised.value)
    if file == LEGACY:  # a broken file matters only if none comes before it
        (tmp_path / FILE).write_text("J")
        assert ChatTemplate.from_snapshot(tmp_path).render(USER) == "J"
