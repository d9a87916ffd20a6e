"""Bugs of other systems: the tokens that were fed, and the expected text.

``data/bug_cases.jsonl`` has a row for each, with the bytes of tokens in hex. Cases whose source is
"derived" are variants of a bug.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal


@dataclass(frozen=True)
class BugCase:
    r"""The tokens of a bug, and the text and finish that are right.

    >>> from streamdec.testing import bug_cases
    >>> case = next(case for case in bug_cases() if case.id == "api-added-literal")
    >>> case.source, case.tokens, case.expected_text
    ('huggingface/tokenizers#1915', (b'\xc4\x91em',), 'đem')
    """

    id: str
    """The name, which begins with the kind of bug."""
    source: str
    """The repository and the number of the issue, or the file, with the bug."""
    note: str
    """One sentence about the wrong or the right behavior."""
    tokens: tuple[bytes, ...]
    """The bytes of each generated token, for a byte-level vocabulary."""
    expected_text: str
    """The expected text, including the flushed text."""
    expected_finish: Literal["stop", "length"]
    """"stop" if a stop string ends the text, "length" if the ids end."""
    expected_stop_reason: str | None = None
    """The stop string that ends the text; None without one."""
    skipped: tuple[int, ...] = ()
    """The indices in ``tokens`` of special tokens, which are skipped."""
    prompt: tuple[bytes, ...] = ()
    """The bytes of each token of the prompt."""
    stop: tuple[str, ...] = ()
    """Stop strings. One case has an empty one, which must raise an error or be ignored."""
    include_stop_str_in_output: bool = False
    """Whether the stop is output; as in Request."""
    min_tokens: int = 0
    """The number of tokens in which no stop counts; as in Request."""
    convention: bool = False
    """Whether another result is not wrong: ours is a convention. Runs only with ``strict``."""


@cache
def bug_cases() -> tuple[BugCase, ...]:
    """Return all bug cases, in alphabetical order of their kinds. They are read once.

    >>> from streamdec.testing import bug_cases
    >>> len(bug_cases()), bug_cases() is bug_cases()
    (83, True)
    """
    text = files("streamdec.testing").joinpath("data/bug_cases.jsonl").read_text("utf-8")
    return tuple(_case_of(json.loads(line)) for line in text.splitlines())


def _case_of(row: dict[str, Any]) -> BugCase:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    for name in ("tokens", "prompt"):
        given[name] = tuple(map(bytes.fromhex, row.get(name, ())))
    return BugCase(**given)
