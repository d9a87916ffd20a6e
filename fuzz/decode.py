"""``python -m fuzz.decode``: test the laws of decoding on all tokenizers for a given time."""

from __future__ import annotations

import argparse
import inspect
import itertools
import logging
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

from hypothesis import HealthCheck, seed, settings

EXAMPLES = 100
"""The examples of each property in each round."""

settings.register_profile(
    "fuzz",
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
# A property has the settings that were active when it was made.
if __name__ == "__main__":  # not when pytest imports this module
    settings.load_profile("fuzz")

from tests import test_laws  # noqa: E402
from tests.support.zoo import ZOO  # noqa: E402

Property = Callable[..., None]


class Target(NamedTuple):
    """A law and the tokenizer to test it with (None if the law draws one)."""

    law: str
    tokenizer: str | None
    run: Property

    @property
    def name(self) -> str:
        return f"{self.law}[{self.tokenizer}]" if self.tokenizer else self.law


class Finding(NamedTuple):
    """A broken law."""

    target: Target
    seed: int
    error: BaseException


def targets(only: Sequence[str] = ()) -> list[Target]:
    """Return each law with each of its tokenizers, if the name contains all of ``only``."""
    found = [
        Target(name.removeprefix("test_"), tokenizer, law)
        for name, law in vars(test_laws).items()
        if hasattr(law, "hypothesis")
        for tokenizer in _tokenizers_for(law)
    ]
    return [target for target in found if all(part in target.name for part in only)]


def _tokenizers_for(law: Property) -> Sequence[str | None]:
    """Return the tokenizers with which pytest would test ``law``."""
    asked = inspect.signature(law).parameters
    for mark in getattr(law, "pytestmark", ()):
        if mark.name == "parametrize" and mark.args[0] == "subject":
            return test_laws.WINDOWED
    if "subject" in asked:
        return [*test_laws.MOCKS, *ZOO, *test_laws.FORMATS, *test_laws.SHARED]
    return ["mock_bytes", "mock_fallback"] if "made" in asked else [None]


def attempt(target: Target, number: int, counts: Counter[str]) -> Finding | None:
    """Run one round of one target, with the seed ``number``."""
    arguments: dict[str, Any] = {}
    if target.tokenizer:
        name = "subject" if "subject" in inspect.signature(target.run).parameters else "made"
        arguments[name] = test_laws.subject_named(target.tokenizer)
    try:
        seed(number)(_counted(target.run, partial(_count, counts, target.law)))(**arguments)
    except Exception as error:  # noqa: BLE001 (any is a finding)
        return Finding(target, number, error)
    return None


def _count(counts: Counter[str], law: str) -> None:
    counts[law] += 1


def _counted(law: Property, count: Callable[[], None]) -> Property:
    """Return ``law``, which calls ``count`` for each example."""
    handle = law.hypothesis  # type: ignore[attr-defined]
    inner: Property = inspect.unwrap(handle.inner_test)

    @wraps(inner)
    def counted(*args: Any, **kwargs: Any) -> None:
        count()
        inner(*args, **kwargs)

    handle.inner_test = counted
    return law


def fuzz(chosen: Sequence[Target], seconds: float, first: int) -> Counter[str] | Finding:
    """Run rounds until ``seconds`` are over or a law fails. Return the counts, or the finding."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in itertools.count(first):
        for target in random.Random(number).sample(chosen, len(chosen)):
            if finding := attempt(target, number, counts):
                return finding
            if time.monotonic() > end:
                return counts
    raise AssertionError("numbers do not end")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.decode", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--only", action="append", default=[], help="a part of the target's name")
    parser.add_argument("--seed", type=int, help="the seed of the first round, to replay a finding")
    options = parser.parse_args(arguments)
    chosen = targets(options.only)
    if not chosen:
        parser.error(f"no target has {options.only} in its name")
    first = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    return report(fuzz(chosen, options.seconds, first), len(chosen))


def report(outcome: Counter[str] | Finding, size: int) -> int:
    """Print the outcome, and return the exit status."""
    if isinstance(outcome, Counter):
        for law, count in sorted(outcome.items()):
            print(f"{count:9,}  {law}")
        print(f"{outcome.total():9,}  examples of {size} targets, no finding")
        return 0
    target, number, error = outcome
    traceback.print_exception(error, file=sys.stdout)
    print(f"\n{target.name} does not hold")
    print(f"replay with: python -m fuzz.decode --seconds 0 --seed {number} --only {target.name!r}")
    return 1


if __name__ == "__main__":
    logging.getLogger("streamdec").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # warnings about tokenizers that stream over a window
    sys.exit(main())
