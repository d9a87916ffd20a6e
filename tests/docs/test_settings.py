"""``docs/reference/cli.md`` has each variable and logger of the code, and no other."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.pages import ROOT, Page

SOURCES = sorted([*(ROOT / "streamdec").rglob("*.py"), *ROOT.glob("plugins/*/streamdec_*/*.py")])
NAME = re.compile(r"_?[A-Z][A-Z_]{3,}")
OTHER_WORDS = re.compile(
    "(STOPS_)?SWITCH|TRIED|MARKERS|FIELD|FILE|NAME|SECONDS|TRUE|SIG[A-Z]+|COMMIT_[A-Z_]+|"
    "[A-Z]+_NUM_THREADS|TOKENIZERS_PARALLELISM"
)
"""Words in capitals of those modules that are no variables, or are only set for a child process."""


def named(title: str) -> set[str]:
    """The first cells of the table under a heading."""
    return {in_code(first) for first, *_ in Page("docs/reference/cli.md", title).table}


def in_code(cell: str) -> str:
    (found,) = re.findall(r"`([^`]+)`", cell)
    return str(found)


# --- variables ------------------------------------------------------------------------------------


LOOKS = re.compile(r"\b(environ|getenv|envvar)\b")


def words_of(path: Path) -> set[str]:
    """The words in capitals that a module writes out or has under a name."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    written = ast.walk(ast.parse(path.read_text("utf-8")))
    found = {str(node.value) for node in written if isinstance(node, ast.Constant)}
    for value in vars(module).values():
        found |= {value} if isinstance(value, str) else set()
        found |= {*map(str, value)} if isinstance(value, tuple) else set()
    return {word for word in found if NAME.fullmatch(word)}


def test_every_variable_is_on_the_page() -> None:
    """Of the modules that look into the environment."""
    words = [words_of(path) for path in SOURCES if LOOKS.search(path.read_text("utf-8"))]
    assert len(words) > 8
    # click reads the first of these, rich the other.
    asked = {"_STREAMDEC_COMPLETE", "NO_COLOR"}.union(*words)
    there = named("Environment variables")
    assert {word for word in asked - there if not OTHER_WORDS.fullmatch(word)} == set()
    assert there <= asked


# --- loggers, limits, calls -----------------------------------------------------------------------


def test_every_logger_is_on_the_page() -> None:
    names = {
        name
        for path in SOURCES
        for name in re.findall(r'getLogger\("([^"]+)"\)', path.read_text("utf-8"))
    }
    assert named("Loggers") == names


def test_importing_changes_nothing() -> None:
    code = """
import logging, os, threading, tokenizers
theirs = tokenizers.decoders.DecodeStream
before = dict(os.environ)
import streamdec
from streamdec import hooks
assert hooks.installed == ()
assert tokenizers.decoders.DecodeStream is theirs
assert logging.getLogger("streamdec").handlers == [] == logging.getLogger().handlers
assert threading.active_count() == 1
assert dict(os.environ) == before
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
