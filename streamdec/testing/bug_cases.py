"""Bugs of other systems: the tokens that were fed, and the expected text.

In: ``data/bug_cases.jsonl``, a row for each, bytes in hex. Out: :class:`BugCase`. ``source`` names
the repository and the issue (or the file) where the bug was met; "derived" ones vary such a case.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

__all__ = ["BugCase", "bug_cases"]


@dataclass(frozen=True)
class BugCase:
    r"""The tokens of a bug, and the text and finish that are right.

    >>> from streamdec.testing import bug_cases
    >>> case = next(case for case in bug_cases() if case.id == "api-added-literal")
    >>> case.source, case.tokens, case.expected_text
    ('huggingface/tokenizers#1915', (b'\xc4\x91em',), 'đem')
    """

    id: str
    """Its name, the kind of bug first."""
    source: str
    """The repository and the number of the issue, or the file, where it was met."""
    note: str
    """What went wrong, or what is right, in a sentence."""
    tokens: tuple[bytes, ...]
    """The bytes of each generated token, as a byte-level vocabulary has them."""
    expected_text: str
    """All that should come out, the end's included."""
    expected_finish: Literal["stop", "length"]
    """"stop" if a stop string ends it, "length" if the ids just end."""
    expected_stop_reason: str | None = None
    """Which stop string, if one does."""
    skipped: tuple[int, ...] = ()
    """Places in ``tokens`` of special tokens, which are skipped."""
    prompt: tuple[bytes, ...] = ()
    """The bytes of each token that came before."""
    stop: tuple[str, ...] = ()
    """Stop strings. One case has an empty one, which must be refused or left out."""
    include_stop_str_in_output: bool = False
    """Whether the stop is shown; as in Request."""
    min_tokens: int = 0
    """Tokens within which no stop counts; as in Request."""


@cache
def bug_cases() -> tuple[BugCase, ...]:
    """All of them, in alphabetical order of their kinds; read once.

    >>> from streamdec.testing import bug_cases
    >>> len(bug_cases()), bug_cases() is bug_cases()
    (81, True)
    """
    text = files("streamdec.testing").joinpath("data/bug_cases.jsonl").read_text("utf-8")
    return tuple(_case_of(json.loads(line)) for line in text.splitlines())


def _case_of(row: dict[str, Any]) -> BugCase:
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    for name in ("tokens", "prompt"):
        given[name] = _bytes(row.get(name, ()))
    return BugCase(**given)


def _bytes(tokens: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, tokens))
