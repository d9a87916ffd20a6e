"""``docs/reference/errors.md`` is what the docstrings say, and each of its messages is raised."""

from __future__ import annotations

import logging
import pickle
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

from streamdec import errors
from streamdec.chunks import Chunk
from tests.docs.provoked import PROVOKED
from tests.support.pages import ROOT, Page

PAGE = Page("docs/reference/errors.md")
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "make_errors_reference.py"))
MESSAGES = [message for group in SCRIPT["MESSAGES"].values() for message in group]


def test_the_page_is_written_from_the_docstrings() -> None:
    assert PAGE.text == SCRIPT["page"](), "run scripts/make_errors_reference.py"


def test_it_has_every_class() -> None:
    classes = {name for name in errors.__all__ if not name.startswith("_")}
    assert set(re.findall(r"^### (\w+(?:Error|Warning))$", PAGE.text, re.MULTILINE)) == classes
    assert classes == {name for name, value in vars(errors).items() if _is_own(value)}
    assert {where.rpartition(".")[2] for where in SCRIPT["elsewhere"]()} == {
        *("RequestError", "ConformanceError")
    }


def _is_own(value: object) -> bool:
    """Whether ``value`` is a class of the module ``errors``."""
    return isinstance(value, type) and value.__module__ == errors.__name__


@pytest.mark.parametrize("name", errors.__all__)
def test_the_tree_has_the_parents_that_the_class_has(name: str) -> None:
    kind = getattr(errors, name)
    (line,) = re.findall(rf"^.*(?:── |^){name}\b.*$", errors.__doc__ or "", re.MULTILINE) or [""]
    if name in ("StreamdecError", "StreamdecWarning"):
        return
    told = re.search(rf"{name} \(([\w, ]+)\)", line)
    builtin = [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"]
    assert (told[1].split(", ") if told else []) == builtin
    above = (errors.__doc__ or "").split(line)[0].splitlines()
    depth = line.index("── ")
    parent = next(row for row in reversed(above) if row.rstrip() and _depth(row) < depth)
    assert re.findall(r"\w+Error", parent)[0] == kind.__bases__[0].__name__


def _depth(row: str) -> int:
    return row.index("── ") if "── " in row else 0


def test_every_message_has_a_provocation_and_the_reverse() -> None:
    assert len(MESSAGES) == len({message.text for message in MESSAGES})
    assert {message.text for message in MESSAGES} == set(PROVOKED)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.text[:50])
def test_a_message_is_a_real_one(
    message: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provoke = PROVOKED[message.text]
    if message.error.startswith("log "):
        with caplog.at_level(logging.DEBUG, "streamdec"):
            provoke(tmp_path)
        said = [(f"log {one.levelname}", one.getMessage()) for one in caplog.records]
    elif message.error == "StreamdecWarning":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            provoke(tmp_path)
        said = [(one.category.__name__, str(one.message)) for one in caught]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.StreamdecWarning)
            with pytest.raises(Exception) as raised:
                provoke(tmp_path)
        said = [(type(raised.value).__name__, str(raised.value))]
    pattern = ".*".join(map(re.escape, message.text.split("…")))
    assert sum(len(part) for part in message.text.split("…")) >= 16
    assert [kind for kind, text in said if re.fullmatch(pattern, text, re.DOTALL)] == [
        message.error
    ], said


MADE = {
    errors.TokenIdError: ("m", -1, 4),
    errors.IdleTimeoutError: (1.5, {"format": 1}),
}


@pytest.mark.parametrize(
    "name", [name for name in errors.__all__ if issubclass(getattr(errors, name), Exception)]
)
def test_every_error_survives_pickling(name: str) -> None:
    kind = getattr(errors, name)
    error = kind(*MADE.get(kind, ("m",)))
    error.chunk, error.num_taken = Chunk("text"), 3
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), vars(other)) == (kind, str(error), vars(error))
