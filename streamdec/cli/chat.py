"""``streamdec chat``: render a conversation as a prompt with a chat template."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import Any

import click

from streamdec.chat import sources
from streamdec.chat._jinja import within
from streamdec.cli.loading import Loader, loading_options, say_what_encodes
from streamdec.cli.shared_options import UserFile, UserPath
from streamdec.cli.statuses import CannotBeginError
from streamdec.errors import ChatTemplateError
from streamdec.tokenizers._chat import ChatRenderer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

PARTS_HINT = (
    "hint: the template does not accept a list as content; --openai joins the parts to one text"
)
ARGUMENTS_HINT = (
    "hint: tool arguments are a string, which many templates do not accept; --openai parses them"
)


@click.group()
def chat() -> None:
    """Render conversations as prompts, with the chat template of a model.

    \b
    Example:
      streamdec chat render ./model --messages chat.json
    """


@chat.command()
@loading_options
@click.option(
    "--messages",
    required=True,
    metavar="FILE",
    type=UserFile("rb"),
    help="A JSON list of messages, or an object with 'messages' (and 'tools'); '-' is stdin.",
)
@click.option("--tools", metavar="FILE", type=UserFile("rb"), help="A JSON list of tools.")
@click.option("--documents", metavar="FILE", type=UserFile("rb"), help="A JSON list of documents.")
@click.option(
    "--template",
    "chat_template",
    metavar="NAME|FILE",
    type=UserPath(),
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
    "--fallback",
    type=click.Choice(["simple"]),
    help="The template to use if the model has none. 'simple': a line with the role and the "
    "content of each message.",
)
@click.option(
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME=JSON",
    help="A variable of the template, such as enable_thinking=false; may be repeated.",
)
@click.option(
    "--now",
    type=click.DateTime(),
    help="The time for the template. The default is the current time.",
)
@click.option("--tokens", is_flag=True, help="Print a line for each token: its id and its text.")
@click.argument("path", metavar="MODEL", type=UserPath())
def render(
    path: str,
    load: Loader,
    messages: BufferedReader,
    tools: BufferedReader | None,
    documents: BufferedReader | None,
    chat_template: str | None,
    profile: str,
    isolate: bool,
    add_generation_prompt: bool,
    continue_final_message: bool,
    openai: bool,
    fallback: str | None,
    variables: tuple[str, ...],
    now: datetime | None,
    tokens: bool,
) -> None:
    """Render a conversation with the chat template of MODEL.

    MODEL is the folder of a model, a tokenizer file, or a name as for 'info'. A line on stderr says
    which template is rendered, and why. The output is only the text, or with --tokens a line for
    each token.

    \b
    Examples:
      streamdec chat render ./model --messages chat.json --add-generation-prompt
      streamdec chat render ./model --messages - --tools tools.json --tokens < chat.json
      streamdec chat render ./model --messages chat.json --variable enable_thinking=false
    """
    given = _json_of(messages)
    conversation: Any = given
    if isinstance(given, dict):
        conversation = _messages_in(given, messages)
    called = _json_of(tools) if tools is not None else None
    if tools is None and isinstance(given, dict):
        called = given.get("tools")
    options = {
        "profile": profile,
        "isolate": isolate,
        "now": now,
        "fallback": fallback,
    }
    is_file = chat_template is not None and Path(chat_template).is_file()
    other, name = (chat_template, None) if is_file else (None, chat_template)
    tokenizer = load(path) if tokens or not _has_template(path, other) else None
    chosen = _template(path, tokenizer, other, name, options)
    click.echo(f"template: {chosen.origin}", err=True)
    _check_name(name, chosen)
    hint = None
    if openai:
        conversation = chosen.openai_messages(
            conversation, chat_template=name, with_tools=called is not None
        )
    elif _has_parts(conversation) and _takes_text(chosen, name, called is not None):
        click.echo(PARTS_HINT, err=True)
    elif _has_argument_strings(conversation):
        hint = ARGUMENTS_HINT
    text = _rendered(
        chosen,
        conversation,
        hint=hint,
        tools=called,
        documents=None if documents is None else _json_of(documents),
        chat_template=name,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        template_kwargs=dict(map(_variable, variables)),
    )
    if tokens and tokenizer is not None:
        say_what_encodes(tokenizer)
        _print_tokens(tokenizer, text)
    else:
        sys.stdout.buffer.write(_encoded(text))
    sys.stdout.buffer.flush()


def _has_template(path: str, other: str | None) -> bool:
    """Return whether the template can be rendered without a tokenizer."""
    return Path(path).is_dir() and (other is not None or sources.from_snapshot(path) is not None)


def _template(
    path: str,
    tokenizer: LoadedTokenizer | None,
    other: str | None,
    name: str | None,
    options: dict[str, Any],
) -> ChatRenderer:
    if tokenizer is not None:
        tokenizer.set_chat_template(other, **options)
        try:
            return tokenizer.get_chat_template()
        except ChatTemplateError as error:
            if name is None:
                raise
            raise ChatTemplateError(f"{name!r} is not a file; {error}") from error
    kind = within("streamdec.chat.template").ChatTemplate
    made: ChatRenderer = kind.from_snapshot(path, chat_template=other, **options)
    return made


def _check_name(name: str | None, template: ChatRenderer) -> None:
    """Raise BadParameter for an unknown name.

    It would be rendered as the text of a template.
    """
    names = getattr(template.origin, "names", ())
    if name is not None and name not in names:
        there = f"the templates are {', '.join(names)}" if names else "the template has no name"
        raise click.BadParameter(f"{name!r} is not a file, and {there}", param_hint="--template")


def _dicts(found: Any) -> Iterator[dict[str, Any]]:
    """Yield the dicts in a list; nothing for any other value of a JSON file."""
    return (one for one in found if isinstance(one, dict)) if isinstance(found, list) else iter(())


def _has_parts(conversation: Any) -> bool:
    return any(isinstance(message.get("content"), list) for message in _dicts(conversation))


def _has_argument_strings(conversation: Any) -> bool:
    functions = (
        call.get("function")
        for message in _dicts(conversation)
        for call in _dicts(message.get("tool_calls"))
    )
    return any(isinstance(one.get("arguments"), str) for one in _dicts([*functions]))


def _takes_text(template: Any, name: str | None, with_tools: bool) -> bool:
    """Return whether the template takes only text as content.

    The fallback also takes parts.
    """
    if getattr(template.origin, "kind", None) == "fallback":
        return False
    try:
        found: str = template.content_format(chat_template=name, with_tools=with_tools)
    except ChatTemplateError:
        return False  # rendering raises a better error
    return found == "string"


def _rendered(
    template: ChatRenderer, conversation: Any, *, hint: str | None, **options: Any
) -> str:
    try:
        return template.render(conversation, **options)
    except ChatTemplateError as error:
        if hint is not None:
            click.echo(hint, err=True)
        # The message may be the template's own; the notes name the template.
        told = " ".join([str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))])
        raise ChatTemplateError(told) from error


def _print_tokens(tokenizer: LoadedTokenizer, text: str) -> None:
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    width = len(str(max(ids, default=0)))
    for token_id in ids:
        piece = _piece(tokenizer, token_id)
        sys.stdout.buffer.write(f"{token_id:>{width}}  {piece}\n".encode())


def _piece(tokenizer: LoadedTokenizer, token_id: int) -> str:
    """Return a token's text as a JSON string, or its bytes if they are not UTF-8."""
    data = tokenizer.token_bytes(token_id)
    if not data:
        return json.dumps(tokenizer.id_to_token(token_id), ensure_ascii=False)
    try:
        return json.dumps(data.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return repr(data)


def _json_of(file: BufferedReader) -> Any:
    try:
        return json.loads(file.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CannotBeginError(f"{_name_of(file)}: not JSON: {error}") from error


def _messages_in(given: dict[str, Any], file: BufferedReader) -> Any:
    if "messages" in given:
        return given["messages"]
    keys = ", ".join(map(repr, given)) or "no keys"
    advice = "; put the message into a list" if "role" in given else ""
    raise CannotBeginError(
        f"{_name_of(file)}: expected a list of messages, or an object with 'messages', got an "
        f"object with {keys:.200}{advice}"
    )


def _name_of(file: BufferedReader) -> str:
    return click.format_filename(getattr(file, "name", "<stdin>"))


def _variable(given: str) -> tuple[str, Any]:
    name, sign, value = given.partition("=")
    try:
        if not sign or not name.isidentifier():
            raise ValueError("expected NAME=JSON")
        return name, json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{given!r}: {error}", param_hint="--variable") from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        place = f"U+{ord(text[error.start]):04X} at index {error.start}"
        raise CannotBeginError(f"the text has a lone surrogate: {place}") from error
