"""The results of checks, and a readable report of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
"""Skipped: the detokenizer lacks a feature that the check needs, or there is no oracle."""


@dataclass(frozen=True)
class Result:
    """The result of one check. As text: the outcome, the name and the detail.

    >>> from streamdec.testing import Result
    >>> print(Result("prompt[wordpiece]", "skipped", "the detokenizer lacks: prompts"))
    SKIPPED prompt[wordpiece]
        the detokenizer lacks: prompts
    """

    name: str
    """The law and the tokenizer in brackets, or ``bug_case`` and its id."""
    outcome: Outcome
    """The outcome."""
    detail: str = ""
    """Failed: the guarantee and the smallest example. Skipped: the reason."""

    def __str__(self) -> str:
        detail = "".join(f"\n    {line}" for line in self.detail.splitlines())
        return f"{self.outcome.upper()} {self.name}{detail}"


@dataclass(frozen=True)
class Report:
    """All results.

    As text: the failures in full, the skipped checks by reason, and the counts.

    >>> from streamdec.testing import Report, Result
    >>> report = Report((Result("prompt[small]", "passed"), Result("unknown_ids[small]", "failed")))
    >>> print(report)
    FAILED unknown_ids[small]
    1 passed, 1 failed, 0 skipped
    """

    results: tuple[Result, ...]
    """The results in the order of the checks."""

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def passed(self) -> tuple[Result, ...]:
        """The checks that passed."""
        return self._of("passed")

    @property
    def failed(self) -> tuple[Result, ...]:
        """The checks that failed."""
        return self._of("failed")

    @property
    def skipped(self) -> tuple[Result, ...]:
        """The checks that were skipped."""
        return self._of("skipped")

    def _of(self, outcome: Outcome) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.outcome == outcome)

    def raise_for_failures(self) -> None:
        """Raise AssertionError with the whole report if a check failed, or none passed."""
        if self.failed or not self.passed:
            raise AssertionError(f"\n{self}")

    def __str__(self) -> str:
        reasons = dict.fromkeys(result.detail for result in self.skipped)
        counts = {reason: sum(r.detail == reason for r in self.skipped) for reason in reasons}
        skipped = [f"SKIPPED {count}: {reason}" for reason, count in counts.items()]
        return "\n".join([*map(str, self.failed), *skipped, self.summary])

    @property
    def summary(self) -> str:
        """The counts of each outcome, in one line."""
        found = (self.passed, self.failed, self.skipped)
        counts = map(len, found)
        return ", ".join(
            f"{count} {name}"
            for count, name in zip(counts, ("passed", "failed", "skipped"), strict=True)
        )
