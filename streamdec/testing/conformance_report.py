"""The results of checks, and a readable report of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
"""Skipped: the detokenizer lacks a feature that the check needs, or there is no oracle."""


MOST_CAUSES = 5
"""The most causes of failures that a report shows with an example."""
_LONGEST_LINE = 400


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

    @property
    def cause(self) -> str:
        """The group in a report: the exception, the law, or the kind of bug case."""
        lines = self.detail.splitlines()
        raised = next((line for line in lines if line.startswith("raised ")), None)
        law, _, rest = self.name.partition("[")
        return raised or (f"{law}[{rest.partition('-')[0]}-...]" if law == "bug_case" else law)

    def __str__(self) -> str:
        detail = "".join(f"\n    {line}" for line in self.detail.splitlines())
        return f"{self.outcome.upper()} {self.name}{detail}"


@dataclass(frozen=True)
class Report:
    """All results.

    As text: five causes of failures with the smallest example of each, the names of other causes,
    the skipped checks by reason, and the counts. ``failed`` has every failure in full.

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
        causes: dict[str, list[Result]] = {}
        for result in self.failed:
            causes.setdefault(result.cause, []).append(result)
        largest = sorted(causes, key=lambda cause: -len(causes[cause]))
        failed = [_shown(causes[cause]) for cause in largest[:MOST_CAUSES]]
        if others := largest[MOST_CAUSES:]:
            failed.append(f"FAILED for {len(others)} more causes: {', '.join(others):.300}")
        reasons = [result.detail for result in self.skipped]
        skipped = [f"SKIPPED {reasons.count(each)}: {each}" for each in dict.fromkeys(reasons)]
        return "\n".join([*failed, *skipped, self.summary])

    @property
    def summary(self) -> str:
        """The counts of each outcome, in one line."""
        return ", ".join(f"{len(self._of(outcome))} {outcome}" for outcome in get_args(Outcome))


def _shown(results: list[Result]) -> str:
    """Return the smallest of the failures with one cause, and name the others."""
    smallest = min(results, key=lambda result: len(result.detail))
    lines = [f"{line:.{_LONGEST_LINE}}" for line in str(smallest).splitlines()]
    others = [result.name for result in results if result is not smallest]
    if others:
        lines.append(f"    also in {len(others)} more: {', '.join(others):.200}")
    return "\n".join(lines)
