"""``streamdec info``: show a tokenizer's format, library and caveats."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from streamdec.backends._decoder_chain import stages_of
from streamdec.backends.caveats import caveats_of
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.backends.library_stream import library_tokenizer
from streamdec.cli.loading import Loader, loading_options, tokenizer_argument
from streamdec.cli.progress import write_line
from streamdec.core.shared_tables import route_of
from streamdec.errors import StreamdecWarning
from streamdec.folders.apply_tokenizer_config import TokenizerConfigChanges
from streamdec.loading.detect import detect_format
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_SAID_BELOW = ".*(They are decoded as other text|have other ids than the file says|contradict it: )"
_MOST_LISTED = 12
"""The most tokens of a list in the text output; JSON has all."""


@click.command()
@loading_options
@click.option("--json", "as_json", is_flag=True, help="Write everything as one JSON object.")
@tokenizer_argument
def info(tokenizer: str, load: Loader, as_json: bool) -> None:
    """Describe TOKENIZER: its format, encoding library, sizes and caveats.

    The output also gives the reason for the encoding library. TOKENIZER is a file, a folder, or the
    name of an encoding, of a model, or of a repository of the Hub. For an unsupported file, the
    error names the format that was found; the exit status is 2.

    A caveat is a property of the tokenizer that can make text or ids unexpected. Each is listed
    with its tokens and its consequence. Every command that loads TOKENIZER warns about caveats that
    change text. Some caveats have the code of the same finding of 'streamdec preflight'.

    \b
    Examples:
      streamdec info ./model
      streamdec info --json ./model/tokenizer.json
      streamdec info --fast off ./model
    """
    # The output lists all caveats in full.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=StreamdecWarning, message=_SAID_BELOW)
        loaded = load(tokenizer)
        if isinstance(loaded, HybridTokenizer):
            loaded.wait()
        facts = _facts(loaded)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    lines = list(_lines(facts))
    width = max(len(name) for name, _ in lines)
    for name, told in lines:
        line = f"{name:{width}}  {told}"
        if sys.stdout.isatty():
            line = _wrapped(line, width + 2)
        write_line(line)


def _wrapped(line: str, indent: int) -> str:
    """Wrap ``line`` between words and indent the later rows.

    A path is not broken, so that it can be copied.
    """
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _facts(tokenizer: LoadedTokenizer) -> dict[str, Any]:
    """Return everything as JSON data."""
    special = tokenizer.special_tokens
    rules = tokenizer.rules
    changes: TokenizerConfigChanges | None = getattr(tokenizer, "tokenizer_config_changes", None)
    return {
        "name": getattr(tokenizer, "name", None),
        "found": _found(tokenizer),
        "class": type(tokenizer).__name__,
        "vocab_size": tokenizer.vocab_size,
        "sizes": _sizes(tokenizer),
        "decoder": _decoder(tokenizer),
        "rule": None if rules is None else type(rules.rule).__name__,
        "streams": route_of(tokenizer),
        "fingerprint": tokenizer.fingerprint,
        "special_tokens": {name: tokenizer.token_to_id(name) for name in special.all},
        "tokenizer_config_changes": None if changes is None else asdict(changes),
        "roles": {role: getattr(special, f"{role}_token") for role in _ROLES},
        "caveats": [
            asdict(found) | {"tokens": {text: i for i, text in found.tokens.items()}}
            for found in caveats_of(tokenizer)
        ],
        "report": asdict(tokenizer.report),
    }


def _sizes(tokenizer: LoadedTokenizer) -> dict[str, int | None]:
    """Return the counts of tokens and bytes; None where a count is not known."""
    library = library_tokenizer(tokenizer)
    path = Path(getattr(tokenizer, "name", ""))
    # The library's own method is four times as fast.
    names = map((library or tokenizer).id_to_token, range(tokenizer.vocab_size))
    return {
        "tokens": sum(name is not None for name in names),
        "added": None if library is None else len(library.get_added_tokens_decoder()),
        "special": len(tokenizer.special_tokens.all),
        "file_bytes": path.stat().st_size if path.is_file() else None,
    }


def _decoder(tokenizer: LoadedTokenizer) -> list[str] | None:
    """Return the decoders of a tokenizer.json in order; None for other formats."""
    library = library_tokenizer(tokenizer)
    if library is None:
        return None
    return [stage["type"] for stage in stages_of(library.decoder) or ()]


def _found(tokenizer: LoadedTokenizer) -> str | None:
    """Describe the tokenizer's file; None if it has no file."""
    path = Path(getattr(tokenizer, "name", ""))
    return detect_format(path).description if path.is_file() else None


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts as names and text."""
    report = facts["report"]
    yield "tokenizer", str(facts["name"])
    yield "format", report["format"] + (f": {facts['found']}" if facts["found"] else "")
    yield "served by", facts["class"]
    by = {"default": "the default", "argument": "by --fast"}.get(
        report["requested_by"], "by the environment"
    )
    yield "encodes", f"{report['active']}: {report['reason']}"
    if report["format"] == "huggingface":
        yield "fast", f"{report['requested']} ({by})"
    if report["guarded"]:
        yield "except", f"texts with {report['guarded']!a}, which huggingface encodes"
    how = "over a window of decode()" if facts["streams"] == "window" else "byte by byte"
    if facts["decoder"] is not None:
        yield "decoder", ", ".join(facts["decoder"]) or "none: a space between two tokens"
    yield "streams", f"{how}, joined by {facts['rule'] or 'decode()'}"
    sizes = facts["sizes"]
    added = "" if sizes["added"] is None else f", {sizes['added']:,} of them added"
    yield "ids", f"below {facts['vocab_size']:,}; {sizes['tokens']:,} tokens{added}"
    if sizes["file_bytes"] is not None:
        yield "file", f"{sizes['file_bytes']:,} bytes"
    for role, token in facts["roles"].items():
        if token is not None:
            yield role, f"{_shown(token)} ({facts['special_tokens'][token]})"
    yield "special", _listed(facts["special_tokens"])
    if facts["tokenizer_config_changes"] is not None:
        yield from _change_lines(facts["tokenizer_config_changes"])
    for caveat in facts["caveats"]:
        listed = f": {_listed(caveat['tokens'])}" if caveat["tokens"] else ""
        yield "caveat", f"{caveat['what']}{listed}. {caveat['follows']} [{caveat['code']}]"
    yield "fingerprint", facts["fingerprint"]
    yield "sha256", report["sha256"] or "unknown: only a part of the file is read"
    if report["revision"]:
        yield "revision", report["revision"]
    yield "seconds", ", ".join(f"{name} {took:.3f}" for name, took in report["seconds"].items())
    yield "versions", ", ".join(f"{name} {version}" for name, version in report["versions"].items())


def _change_lines(changes: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the tokens of a tokenizer.json that files beside it changed or appended."""
    files = " and ".join(changes["files"])
    for what in ("changed", "appended", "lost"):
        if changes[what]:
            yield what, f"{_listed({name: i for i, name in changes[what].items()})} (by {files})"
    if changes["built_by"]:
        replaced = ", ".join(changes["replaced"]) or "nothing"
        yield "built by", f"{changes['built_by']} of transformers 5, which replaces {replaced}"
    if changes["not_followed"]:
        yield "differs", f"possibly from transformers 5: {changes['not_followed']}"
    if not any(changes[what] for what in ("changed", "appended", "lost", "replaced")):
        yield "config", f"{files} changes nothing" if files else "no file beside it"


def _listed(tokens: dict[str, int]) -> str:
    shown = ", ".join(f"{_shown(name)} {i}" for name, i in list(tokens.items())[:_MOST_LISTED])
    more = len(tokens) - _MOST_LISTED
    return f"{len(tokens)}: {shown}" + (f", and {more} more" if more > 0 else "")


def _shown(token: str) -> str:
    return token if token.isprintable() and token.strip() == token and token else repr(token)
