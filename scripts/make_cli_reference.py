"""Writes ``docs/reference/cli.md`` from the commands themselves.

Run it after changing a command: ``python scripts/make_cli_reference.py``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from streamdec.cli.commands import COMMANDS, commands
from streamdec.cli.shared import LOADING

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
WIDTH = 100
INTRODUCTION = """\
# The command line

After this page you can look up each command, its options, exit statuses and environment variables.
`pip install '.[cli]'` installs the command `streamdec`. `python -m streamdec` is the same. Some
parts need another extra:

| extra | needed for |
|---|---|
| `bulk` | `bulk` |
| `chat` | `chat`, and the chat templates in `preflight` |
| `server` | `serve` |
| `fast` | a faster `encode` |
| `hub` | `--allow-download` |
| `tiktoken`, `sentencepiece` | tokenizers of these formats |

For all commands: `pip install '.[cli,bulk,chat,server]'`.
`scripts/make_cli_reference.py` writes this page from the commands. `streamdec COMMAND --help`
prints the same text.

All commands have this in common:

- **TOKENIZER** is the first argument: a file, a folder, a name (of an encoding, of a model, of a
  repository of the Hugging Face Hub), or `demo`. Downloads need `--allow-download`.
- **INPUT** is token ids with spaces or commas between, or a file with them, or a file `.jsonl` with
  a JSON value in each line (`--jsonl` for other files and stdin). `--field` names the field with
  the ids or the text. Without INPUT, or with `-`, it is stdin. A line has at most 64 MiB.
- **Output** goes to stdout, as UTF-8 in any locale. Messages go to stderr. `--json` is for tools.
- **A bad line** of JSONL is named on stderr with its number and left out.
"""
VARIABLES = {
    "STREAMDEC_FAST": "When to load fastokens, a faster encoder: `off`, `now` or `background`.",
    "STREAMDEC_API_KEY": "The key of the clients of `streamdec serve`, as `--api-key`.",
    "NO_COLOR": "With any value that is not empty: no colours.",
    "TERM": "`dumb`: plain lines, no progress.",
    "HF_HUB_OFFLINE": "`1`: no downloads, even with `--allow-download`.",
    "TIKTOKEN_CACHE_DIR, DATA_GYM_CACHE_DIR": "The cache of rank files, as for tiktoken.",
}
STATUSES = {
    0: "Fine.",
    1: "The answer is no (texts that differ, a finding of preflight at least as severe as "
    "--fail-on), a row or file of the input is bad, or the command was interrupted.",
    2: "Wrong use, or the command cannot begin: a missing file, a tokenizer that cannot be loaded, "
    "a missing extra, a system error.",
}
COMPLETION = """\
## Completion

Run the line of your shell once. In a new shell, TAB then completes commands, options, their values
and paths:

```sh
_STREAMDEC_COMPLETE=bash_source streamdec >> ~/.bashrc
_STREAMDEC_COMPLETE=zsh_source streamdec >> ~/.zshrc
_STREAMDEC_COMPLETE=fish_source streamdec > ~/.config/fish/completions/streamdec.fish
```

bash must be 4.4 or newer. At each TAB the shell runs `streamdec`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "| command | what it does |"
    yield "|---|---|"
    root = commands.make_context("streamdec", [], resilient_parsing=True)
    for name in COMMANDS:
        command = commands.get_command(root, name)
        assert command is not None
        yield f"| [`{name}`](#streamdec-{name}) | {command.get_short_help_str(200)} |"
    yield ""
    yield "## Exit statuses"
    yield ""
    yield "| status | meaning |"
    yield "|---|---|"
    for status, told in STATUSES.items():
        yield f"| {status} | {_escaped(told)} |"
    yield ""
    yield "## Environment variables"
    yield ""
    yield "| variable | meaning |"
    yield "|---|---|"
    for names, told in VARIABLES.items():
        yield f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {told} |"
    yield ""
    yield COMPLETION
    yield "## Commands"
    yield ""
    # A command keeps the help option of the first context, so the context has the real settings.
    context = commands.make_context("streamdec", [], resilient_parsing=True)
    for name in COMMANDS:
        command = commands.get_command(context, name)
        assert command is not None
        yield from _command(command, click.Context(command, parent=context, info_name=name))
    info = commands.get_command(context, "info")
    assert info is not None
    yield "## Options of loading"
    yield ""
    yield ("All commands that load a tokenizer have these options.")
    yield ""
    found = (one for one in info.params if isinstance(one, click.Option) and one.name in LOADING)
    yield from _table(found)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    level = context.command_path.count(" ") + 2
    yield f"{'#' * level} {context.command_path}"
    yield ""
    yield "```text"
    yield f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    yield "```"
    yield ""
    yield from _help(command.help or "")
    options = [one for one in command.params if isinstance(one, click.Option)]
    if {one.name for one in options} >= LOADING.keys():
        options = [one for one in options if one.name not in LOADING]
        yield "Takes the [options of loading](#options-of-loading)."
        yield ""
    if options:
        yield from _table(options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, parent=context, info_name=name))


def _table(options: Iterable[click.Option]) -> Iterator[str]:
    yield "| option | |"
    yield "|---|---|"
    for option in options:
        yield f"| {_spelled(option)} | {_told(option)} |"
    yield ""


def _help(text: str) -> Iterator[str]:
    """The paragraphs of a help text, and its examples as a block."""
    for paragraph in text.replace("\f", "").split("\n\n"):
        if paragraph.strip().startswith("\b"):
            *_, examples = re.split("Examples?:\n", paragraph)
            yield "```sh"
            yield textwrap.dedent(examples).rstrip()
            yield "```"
        else:
            yield textwrap.fill(
                " ".join(_escaped(paragraph).split()),
                WIDTH,
                break_long_words=False,
                break_on_hyphens=False,
            )
        yield ""


def _spelled(option: click.Option) -> str:
    """Its names and what follows them."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    if isinstance(option.type, click.Choice):
        return f"{names} {', '.join(f'*{one}*' for one in option.type.choices)}"
    kind = option.metavar or option.type.name.split()[0].upper()
    return f"{names} {_escaped(kind)}"


def _told(option: click.Option) -> str:
    said = [_escaped(" ".join((option.help or "").split()))]
    if option.required:
        said.append("Required.")
    if option.show_default and not option.is_flag:
        said.append(f"Default: `{option.default}`.")
    return " ".join(said)


def _escaped(text: str) -> str:
    r"""``text`` as Markdown that shows it; options and escapes such as ``\n`` as code."""
    text = re.sub(r"(?<![\w`])(--?[a-z][\w-]*|\\[a-zX\\]+)", r"`\1`", text)
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").replace("[", "\\[")


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(page(), "utf-8")
