"""The examples of the page on chat templates print what it says."""

from __future__ import annotations

import click
import pytest

from streamdec.cli.app import commands
from tests.support.pages import Page, printed_by

PAGE = Page("docs/how-to/render-chat-templates.md")


def test_every_example_says_what_it_prints() -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 5


@pytest.mark.parametrize(
    ("code", "text"), PAGE.examples, ids=["template", "request", "model", "spans", "openai"]
)
def test_an_example_prints_what_the_page_says(code: str, text: str) -> None:
    assert printed_by(code) == text.splitlines()


def test_the_commands_of_the_page_have_the_options_that_there_are() -> None:
    context = click.Context(commands)
    chat = commands.get_command(context, "chat")
    assert isinstance(chat, click.Group)
    render = chat.commands["render"]
    known = {option for parameter in render.params for option in parameter.opts}
    lines = PAGE.commands
    assert len(lines) == 2
    assert {word for line in lines for word in line.split() if word.startswith("--")} <= known
