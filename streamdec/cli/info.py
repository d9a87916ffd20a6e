"""``streamdec info``: what a tokenizer file is, what serves it, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from streamdec.backends.overlay import Overlay
from streamdec.backends.report import LoadedTokenizer
from streamdec.cli.loading import Loader, loading_options
from streamdec.core.programs import route_of
from streamdec.loading.detect import detect_format

__all__ = ["info"]

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_MOST_LISTED = 12
"""Special tokens that are shown to people; JSON has all."""


@click.command()
@loading_options
@click.option("--json", "as_json", is_flag=True, help="All of it as a JSON object.")
@click.argument("path")
def info(path: str, load: Loader, as_json: bool) -> None:
    """Say what the tokenizer at PATH is: its format, what encodes it and why, its special tokens.

    PATH is a file, a folder, or a name: of an encoding, a model, or a repository of the Hub. Where
    a file is none that is served, what was found is said, and the exit status is 2.

    \b
    Examples:
      streamdec info ./model
      streamdec info --json ./model/tokenizer.json
      streamdec info --backend fastokens ./model
    """
    facts = _facts(load(path))
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    lines = list(_lines(facts))
    width = max(len(name) for name, _ in lines)
    for name, told in lines:
        # As all commands write: UTF-8, wherever it goes; a path may hold what is none.
        line = f"{name:{width}}  {told}\n".encode("utf-8", "backslashreplace")
        sys.stdout.buffer.write(line)


def _facts(tokenizer: LoadedTokenizer) -> dict[str, Any]:
    """All that is known, as JSON data."""
    special = tokenizer.special_tokens
    rules = tokenizer.rules
    overlay: Overlay | None = getattr(tokenizer, "overlay", None)
    return {
        "name": getattr(tokenizer, "name", None),
        "found": _found(tokenizer),
        "class": type(tokenizer).__name__,
        "vocab_size": tokenizer.vocab_size,
        "rule": None if rules is None else type(rules.rule).__name__,
        "streams": route_of(tokenizer),
        "fingerprint": tokenizer.fingerprint,
        "special_tokens": {name: tokenizer.token_to_id(name) for name in special.all},
        "overlay": None if overlay is None else asdict(overlay),
        "roles": {role: getattr(special, f"{role}_token") for role in _ROLES},
        "report": asdict(tokenizer.report),
    }


def _found(tokenizer: LoadedTokenizer) -> str | None:
    """What its file is, in words; None if there is no file."""
    path = Path(getattr(tokenizer, "name", ""))
    return detect_format(path).description if path.is_file() else None


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for people."""
    report = facts["report"]
    yield "tokenizer", str(facts["name"])
    yield "format", report["format"] + (f": {facts['found']}" if facts["found"] else "")
    yield "served by", facts["class"]
    by = {"default": "the default", "argument": "by --backend"}.get(
        report["requested_by"], "by the environment"
    )
    yield "asked for", f"{report['requested']} ({by})"
    yield "encodes", f"{report['active']}: {report['reason']}"
    if report["guarded"]:
        yield "but for", f"texts with {report['guarded']!a}, which huggingface encodes"
    how = "over a window of decode()" if facts["streams"] == "window" else "byte by byte"
    yield "streams", f"{how}, joined as {facts['rule'] or 'only decode() knows'}"
    yield "ids", f"below {facts['vocab_size']:,}"
    for role, token in facts["roles"].items():
        if token is not None:
            yield role, f"{_shown(token)} ({facts['special_tokens'][token]})"
    yield "special", _listed(facts["special_tokens"])
    if facts["overlay"] is not None:
        yield from _overlay_lines(facts["overlay"])
    yield "fingerprint", facts["fingerprint"]
    yield "sha256", report["sha256"] or "unknown: the file is not read whole"
    if report["revision"]:
        yield "revision", report["revision"]
    yield "seconds", ", ".join(f"{name} {took:.3f}" for name, took in report["seconds"].items())
    yield "versions", ", ".join(f"{name} {version}" for name, version in report["versions"].items())


def _overlay_lines(overlay: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What files beside a tokenizer.json changed of it."""
    files = " and ".join(overlay["files"])
    for what in ("changed", "appended"):
        if overlay[what]:
            yield what, f"{_listed({name: i for i, name in overlay[what].items()})} (by {files})"
    if not (overlay["changed"] or overlay["appended"]):
        yield "overlay", f"{files} changes nothing" if files else "no file beside it"


def _listed(tokens: dict[str, int]) -> str:
    shown = ", ".join(f"{_shown(name)} {i}" for name, i in list(tokens.items())[:_MOST_LISTED])
    more = len(tokens) - _MOST_LISTED
    return f"{len(tokens)}: {shown}" + (f", and {more} more" if more > 0 else "")


def _shown(token: str) -> str:
    return token if token.isprintable() and token.strip() == token and token else repr(token)
