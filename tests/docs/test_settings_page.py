"""``docs/reference/settings.md`` has each variable and logger of the code, and no other."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.pages import ROOT, Page

PAGE = Page("docs/reference/settings.md")
SOURCES = sorted([*(ROOT / "streamdec").rglob("*.py"), *ROOT.glob("plugins/*/streamdec_*/*.py")])
NAME = re.compile(r"_?[A-Z][A-Z_]{3,}")
VALUES = {"TRUE"}
"""Words in capitals beside a variable that are what it may say."""


def rows(title: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    section = PAGE.text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[1:]]


def in_code(cell: str) -> str:
    (found,) = re.findall(r"`([^`]+)`", cell)
    return str(found)


# --- variables ------------------------------------------------------------------------------------


def variables_of(path: Path) -> Iterator[set[str]]:
    """The variables that each look into the environment is about."""
    text = path.read_text("utf-8")
    if not re.search(r"\b(environ|getenv|envvar)\b", text):
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "envvar":  # click looks it up
            yield _names_in([node.value], path, [])
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv"):
            around = [each for each in functions if node in ast.walk(each)]
            inside = [each for each in ast.walk(around[-1]) if isinstance(each, ast.stmt)]
            statement = [each for each in inside if node in ast.walk(each)][-1]
            yield _names_in(ast.walk(statement), path, inside)


def _names_in(nodes: Iterable[ast.AST], path: Path, beside: list[ast.stmt]) -> set[str]:
    """Names of variables: written out, or under a name of the module or of the function."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Constant):
            found.add(str(node.value))
        elif isinstance(node, ast.Name):
            value = getattr(module, node.id, None)
            found |= {value} if isinstance(value, str) else set()
            found |= {*value} if isinstance(value, tuple) else set()
            for each in beside:
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.id:
                    found |= {
                        str(c.value) for c in ast.walk(each.value) if isinstance(c, ast.Constant)
                    }
    return {name for name in found if NAME.fullmatch(name)} - VALUES


def test_every_variable_is_on_the_page() -> None:
    looks = [(path, names) for path in SOURCES for names in variables_of(path)]
    assert len(looks) > 10
    assert [path for path, names in looks if not names] == []
    # click reads the first of these, rich the other.
    asked = {"_STREAMDEC_COMPLETE", "NO_COLOR"}.union(*(names for _, names in looks))
    assert {in_code(row[0]) for row in rows("Environment variables")} == asked


def test_the_page_of_the_commands_names_no_other() -> None:
    page = Page("docs/reference/cli.md", "Environment variables", until="Completion")
    there = {name for names in page.rows("variable") for name in re.findall(r"\w+", names)}
    assert there <= {in_code(row[0]) for row in rows("Environment variables")}


def test_no_module_reads_the_environment_in_another_way() -> None:
    """So that the test above sees all."""
    other = re.compile(r"import (environ|getenv)|\bputenv|(?<!os\.)\benviron\b|os\.environb")
    assert [path for path in SOURCES if other.search(path.read_text("utf-8"))] == []


# --- loggers, limits, calls -----------------------------------------------------------------------


def test_every_logger_is_on_the_page() -> None:
    names = {
        name
        for path in SOURCES
        for name in re.findall(r'getLogger\("([^"]+)"\)', path.read_text("utf-8"))
    }
    assert {in_code(row[0]) for row in rows("Loggers")} == names


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
