"""What came of the checks: results, and all of them as one report that people can read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Outcome", "Report", "Result"]

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
"""Skipped: the detokenizer lacks what the check needs, or there is no oracle."""


@dataclass(frozen=True)
class Result:
    """One check of one detokenizer; as text its outcome, name and detail.

    >>> from streamdec.testing import Result
    >>> print(Result("prompt[wordpiece]", "skipped", "the detokenizer has not: prompts"))
    SKIPPED prompt[wordpiece]
        the detokenizer has not: prompts
    """

    name: str
    """The law and the tokenizer in brackets, or ``bug_case`` and which."""
    outcome: Outcome
    """Whether it held, or was not tried."""
    detail: str = ""
    """Failed: the promise and the smallest example. Skipped: what is lacking."""

    def __str__(self) -> str:
        detail = "".join(f"\n    {line}" for line in self.detail.splitlines())
        return f"{self.outcome.upper()} {self.name}{detail}"


@dataclass(frozen=True)
class Report:
    """All results; as text the failures in full, the skipped by reason, and the counts.

    >>> from streamdec.testing import Report, Result
    >>> report = Report((Result("prompt[small]", "passed"), Result("unknown_ids[small]", "failed")))
    >>> print(report)
    FAILED unknown_ids[small]
    1 passed, 1 failed, 0 skipped
    """

    results: tuple[Result, ...]
    """In the order in which they were tried."""

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def passed(self) -> tuple[Result, ...]:
        """Those that hold."""
        return self._of("passed")

    @property
    def failed(self) -> tuple[Result, ...]:
        """Those that do not."""
        return self._of("failed")

    @property
    def skipped(self) -> tuple[Result, ...]:
        """Those that need what the engine has not."""
        return self._of("skipped")

    def _of(self, outcome: Outcome) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.outcome == outcome)

    def raise_for_failures(self) -> None:
        """Raises AssertionError with the whole report if anything failed, or nothing passed."""
        if self.failed or not self.passed:
            raise AssertionError(f"\n{self}")

    def __str__(self) -> str:
        reasons = dict.fromkeys(result.detail for result in self.skipped)
        counts = {reason: sum(r.detail == reason for r in self.skipped) for reason in reasons}
        skipped = [f"SKIPPED {count}: {reason}" for reason, count in counts.items()]
        return "\n".join([*map(str, self.failed), *skipped, self.summary])

    @property
    def summary(self) -> str:
        """How many of each, as one line."""
        found = (self.passed, self.failed, self.skipped)
        counts = map(len, found)
        return ", ".join(
            f"{count} {name}"
            for count, name in zip(counts, ("passed", "failed", "skipped"), strict=True)
        )
