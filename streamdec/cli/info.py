"""``streamdec info``: show a tokenizer's format, library and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from streamdec.backends._decoder_chain import stages_of
from streamdec.backends.huggingface import library_tokenizer
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.cli import shared
from streamdec.core.shared_tables import route_of
from streamdec.folders.apply_tokenizer_config import TokenizerConfigChanges
from streamdec.loading.detect import detect_format
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_MOST_LISTED = 12
"""The most tokens of a list in the text output; JSON has all."""


@click.command()
@shared.tokenizer_argument()
@click.option("--json", "as_json", is_flag=True, help="Write everything as one JSON object.")
def info(tokenizer: shared.Source, as_json: bool) -> None:
    """Describe a tokenizer: format, library, sizes, special tokens.

    \b
    Examples:
      streamdec info ./model
      streamdec info cl100k_base --json
    """
    loaded = tokenizer.load(untrusted=True)
    if isinstance(loaded, HybridTokenizer):
        loaded.wait()
    facts = _facts(loaded)
    if as_json:
        shared.write(json.dumps(facts, indent=2) + "\n")
        return
    table = Table.grid(padding=(0, 2))
    for name, value in _lines(facts):
        table.add_row(Text(name, "dim"), Text(shared.printable(value), overflow="fold"))
    shared.show(table)


def _facts(tokenizer: LoadedTokenizer) -> dict[str, Any]:
    """Return everything as JSON data."""
    special = tokenizer.special_tokens
    changes: TokenizerConfigChanges | None = getattr(tokenizer, "tokenizer_config_changes", None)
    path = Path(getattr(tokenizer, "name", ""))
    library = library_tokenizer(tokenizer)
    # The library's own method is four times as fast.
    names = map((library or tokenizer).id_to_token, range(tokenizer.vocab_size))
    return {
        "name": getattr(tokenizer, "name", None),
        "found": detect_format(path).description if path.is_file() else None,
        "class": type(tokenizer).__name__,
        "vocab_size": tokenizer.vocab_size,
        "tokens": sum(name is not None for name in names),
        "added": None if library is None else len(library.get_added_tokens_decoder()),
        "decoder": library and [stage["type"] for stage in stages_of(library.decoder) or ()],
        "rule": tokenizer.rules and type(tokenizer.rules.rule).__name__,
        "streams": route_of(tokenizer),
        "fingerprint": tokenizer.fingerprint,
        "special_tokens": {name: tokenizer.token_to_id(name) for name in special.all},
        "tokenizer_config_changes": None if changes is None else asdict(changes),
        "roles": {role: getattr(special, f"{role}_token") for role in _ROLES},
        "report": asdict(tokenizer.report),
    }


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts as names and text."""
    report = facts["report"]
    yield "tokenizer", str(facts["name"])
    yield "format", report["format"] + (f": {facts['found']}" if facts["found"] else "")
    yield "encodes", f"{report['active']}: {report['reason']}"
    if facts["decoder"] is not None:
        yield "decoder", ", ".join(facts["decoder"]) or "none: a space between two tokens"
    how = "over a window of decode()" if facts["streams"] == "window" else "byte by byte"
    yield "streams", f"{how}, joined by {facts['rule'] or 'decode()'}"
    added = "" if facts["added"] is None else f", {facts['added']:,} of them added"
    yield "ids", f"below {facts['vocab_size']:,}; {facts['tokens']:,} tokens{added}"
    for role, token in facts["roles"].items():
        if token is not None:
            yield role, f"{shared.shown_token(token)} ({facts['special_tokens'][token]})"
    yield "special", _listed(facts["special_tokens"])
    if changes := facts["tokenizer_config_changes"]:
        yield "config", " and ".join(changes["files"]) or "no file beside it"
        if changes["built_by"]:
            yield "built by", f"{changes['built_by']} of transformers 5"
        if changes["not_followed"]:
            yield "differs", f"possibly from transformers 5: {changes['not_followed']}"
    yield "fingerprint", facts["fingerprint"]
    yield "sha256", report["sha256"] or "not computed"
    if report["revision"]:
        yield "revision", report["revision"]
    yield "versions", shared.versions()


def _listed(tokens: dict[str, int]) -> str:
    listed = [f"{shared.shown_token(name)} {i}" for name, i in tokens.items()]
    shown, more = ", ".join(listed[:_MOST_LISTED]), len(listed) - _MOST_LISTED
    return f"{len(listed)}: {shown}" + (f", and {more} more" if more > 0 else "")
