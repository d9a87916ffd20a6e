"""``streamdec chat``: render a conversation as a prompt with a chat template."""

from __future__ import annotations

import json
from io import BufferedReader
from pathlib import Path
from typing import Any

import click

from streamdec.cli import shared
from streamdec.cli.inputs import MOST_BYTES
from streamdec.errors import ChatTemplateError


@click.command()
@shared.tokenizer_argument()
@click.argument("messages", metavar="[MESSAGES]", type=click.File("rb"), default="-")
@click.option(
    "--template",
    "chat_template",
    metavar="NAME|FILE",
    type=click.Path(),
    help="The name of one of several templates, or the file of another template.",
)
@click.option(
    "--profile",
    type=click.Choice(["classic", "hardened"]),
    default="classic",
    show_default=True,
    help="Render as transformers 4.57 to 5.20 (classic; most engines use these versions), or as "
    "5.22.2 and later (hardened).",
)
@click.option(
    "--isolate",
    is_flag=True,
    help="Render in a separate process, with limits of the operating system.",
)
@click.option("--add-generation-prompt", is_flag=True, help="Begin the assistant's answer.")
@click.option(
    "--continue-final-message",
    is_flag=True,
    help="Leave the last message open, so that the model continues it.",
)
@click.option(
    "--openai",
    is_flag=True,
    help="Read messages of OpenAI's API: parse the JSON of tool arguments, and join the parts of a "
    "content to one text if the template takes only text.",
)
@click.option(
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME=JSON",
    help="A variable of the template, such as enable_thinking=false; may be repeated.",
)
def chat(
    tokenizer: shared.Source,
    messages: BufferedReader,
    chat_template: str | None,
    profile: str,
    isolate: bool,
    add_generation_prompt: bool,
    continue_final_message: bool,
    openai: bool,
    variables: tuple[str, ...],
) -> None:
    """Render a conversation as a prompt, with a chat template.

    TOKENIZER is the folder of a model, a tokenizer file, or a name. MESSAGES is a file (or stdin)
    with a JSON list of messages, or an object with 'messages' (and 'tools' and 'documents'). The
    output is only the text. A line on stderr says which template is rendered.

    \b
    Examples:
      streamdec chat ./model chat.json --add-generation-prompt
      streamdec chat ./model < request.json | streamdec encode ./model
      streamdec chat ./model chat.json --variable enable_thinking=false
    """
    request = _json_of(messages)
    if not isinstance(request, dict):
        request = {"messages": request}
    if "messages" not in request:
        raise click.UsageError("expected a JSON list of messages, or an object with 'messages'")
    conversation, tools = request["messages"], request.get("tools")
    is_file = chat_template is not None and Path(chat_template).is_file()
    other, name = (chat_template, None) if is_file else (None, chat_template)
    loaded = tokenizer.load(fast="off")
    loaded.set_chat_template(other, profile=profile, isolate=isolate)
    chosen = loaded.get_chat_template()
    shared.tell(f"template: {chosen.origin}")
    # Another name would be rendered as the text of a template.
    names = [*chosen.templates] if isinstance(chosen.templates, dict) else []
    if name is not None and name not in names:
        there = f"the templates are {', '.join(names)}" if names else "the template has no name"
        raise click.BadParameter(f"{name!r} is not a file, and {there}", param_hint="--template")
    if openai:
        conversation = chosen.openai_messages(
            conversation, chat_template=name, with_tools=tools is not None
        )
    try:
        text = chosen.render(
            conversation,
            tools=tools,
            documents=request.get("documents"),
            chat_template=name,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            template_kwargs=dict(map(_variable, variables)),
        )
    except ChatTemplateError as error:
        # The message may be the template's own; the notes name the template.
        notes = [f"({note})" for note in getattr(error, "__notes__", ())]
        raise ChatTemplateError(" ".join([str(error), *notes])) from error
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ChatTemplateError(f"the text has a lone surrogate at {error.start}") from error
    shared.write(text)


def _json_of(file: BufferedReader) -> Any:
    data = file.read(MOST_BYTES + 1)
    try:
        if len(data) > MOST_BYTES:
            raise ValueError(f"longer than {MOST_BYTES:,} bytes")
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        name = click.format_filename(getattr(file, "name", "<stdin>"))
        raise click.UsageError(f"{name}: not JSON: {error}") from error


def _variable(given: str) -> tuple[str, Any]:
    name, sign, value = given.partition("=")
    try:
        if not sign or not name.isidentifier():
            raise ValueError("expected NAME=JSON")
        return name, json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{given!r}: {error}", param_hint="--variable") from error
