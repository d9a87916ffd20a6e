"""The source of a template: which file is used, and its origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec.chat import sources
from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError

USER = [{"role": "user", "content": "Hi"}]
CONFIG = "tokenizer_config.json"


def write(folder: Path, **files: Any) -> Path:
    """A snapshot; ``config`` and ``legacy`` are JSON, ``jinja`` and others templates."""
    names = {"config": CONFIG, "legacy": "chat_template.json", "jinja": "chat_template.jinja"}
    for key, content in files.items():
        path = folder / names.get(key, f"additional_chat_templates/{key}.jinja")
        path.parent.mkdir(exist_ok=True, parents=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.mark.parametrize(
    ("files", "text", "file"),
    [
        ({"config": {"chat_template": "C"}}, "C", CONFIG),
        ({"legacy": {"chat_template": "L"}}, "L", "chat_template.json"),
        ({"default": "A"}, "A", "default.jinja"),
        ({"jinja": "J", "config": {"chat_template": "C"}}, "J", "chat_template.jinja"),
        (
            {"config": {"chat_template": None}, "legacy": {"chat_template": "L"}},
            "L",
            "chat_template.json",
        ),
    ],
)
def test_the_first_template_is_taken_and_its_origin_is_told(
    tmp_path: Path, files: dict[str, Any], text: str, file: str
) -> None:
    template = ChatTemplate.from_snapshot(write(tmp_path, **files))
    assert template.render(USER) == text
    path = template.origin.path
    assert path is not None
    assert path.name == file
    assert str(template.origin).startswith(f"{path}: ")


def test_files_for_other_names_alone_lose_the_one_within(tmp_path: Path) -> None:
    write(tmp_path, config={"chat_template": "C"}, rag="R")
    template = ChatTemplate.from_snapshot(tmp_path)
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
    ("files", "told"),
    [
        ({"config": "{"}, CONFIG),
        ({"config": "[]"}, "not a JSON object"),
        ({"config": "[" * 100_000}, CONFIG),
        ({"config": {"chat_template": 7}}, "chat_template must be a str"),
        ({"config": {"chat_template": [{"name": "a"}]}}, "'name' and 'template'"),
        ({"legacy": {"chat_template": {"a": 7}}}, "the template 'a' must be a str"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, files: dict[str, Any], told: str
) -> None:
    with pytest.raises(ChatTemplateError, match=told) as raised:
        ChatTemplate.from_snapshot(write(tmp_path, **files))
    assert str(tmp_path) in str(raised.value)


def test_a_template_that_is_not_text_or_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ChatTemplateError, match=r"chat_template\.jinja.*codec can't decode"):
        ChatTemplate.from_snapshot(tmp_path)
    path.write_text("x" * (2**20 + 1), encoding="utf-8")
    with pytest.raises(ChatTemplateError, match="more than 1048576"):
        ChatTemplate.from_snapshot(tmp_path)


def test_a_broken_file_matters_only_if_none_comes_before_it(tmp_path: Path) -> None:
    write(tmp_path, legacy="{")
    with pytest.raises(ChatTemplateError, match=r"chat_template\.json"):
        sources.from_snapshot(tmp_path)
    write(tmp_path, jinja="J")
    assert ChatTemplate.from_snapshot(tmp_path).render(USER) == "J"
