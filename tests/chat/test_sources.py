"""The source of a template: which file is used, and its origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
        data = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


@pytest.mark.parametrize(
    ("files", "text", "file"),
    [
        ({"config": {"chat_template": "C"}}, "C", CONFIG),
        ({"legacy": {"chat_template": "L"}}, "L", "chat_template.json"),
        ({"default": "A"}, "A", "default.jinja"),
    ],
)
def test_the_origin_of_a_template_is_its_file(
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
        ({"legacy": "{"}, r"chat_template\.json"),
        ({"jinja": b"\xff\xfe"}, r"chat_template\.jinja.*codec can't decode"),
        ({"jinja": "x" * (2**20 + 1)}, "more than 1048576"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, files: dict[str, Any], told: str
) -> None:
    with pytest.raises(ChatTemplateError, match=told) as raised:
        ChatTemplate.from_snapshot(write(tmp_path, **files))
    assert str(tmp_path) in str(raised.value)
    if "legacy" in files:  # a broken file matters only if none comes before it
        write(tmp_path, jinja="J")
        assert ChatTemplate.from_snapshot(tmp_path).render(USER) == "J"
