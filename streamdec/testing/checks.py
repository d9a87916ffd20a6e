"""All bug cases and laws as checks, and ``check_detokenizer``, which runs them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky, Unsatisfiable

from streamdec.testing.bug_cases import BugCase, bug_cases
from streamdec.testing.conformance_report import Report, Result
from streamdec.testing.detokenizers import ConformanceError, MakeDetokenizer, Request
from streamdec.testing.laws import LAWS, Law, UnjudgedError
from streamdec.testing.subjects import Subject, byte_level_tokenizer, small_tokenizers, subject_of
from streamdec.testing.trials import Driven, Trial

CHANGEABLE = (
    "the same example passed when it was run again: the detokenizer is random, or shares state "
    "between streams"
)
GROUPINGS = 5
"""Random groupings of a bug case, in addition to single ids and one call."""


@dataclass(frozen=True)
class Check:
    """A check of one bug case, or of one law with one tokenizer.

    >>> from streamdec.testing import checks
    >>> class WholeAtTheEnd:
    ...     def __init__(self, tokenizer, request):
    ...         self.tokenizer, self.ids = tokenizer, []
    ...     def step(self, token_ids):
    ...         self.ids += token_ids
    ...         return ""
    ...     def flush(self):
    ...         return self.tokenizer.decode(self.ids)
    >>> (check,) = checks(only=["bug_case"])[:1]
    >>> check.name, check.run(WholeAtTheEnd).outcome
    ('bug_case[api-added-literal]', 'passed')
    """

    name: str
    """``law[tokenizer]`` or ``bug_case[id]``."""
    promise: str
    """The guarantee; for a bug case its note and source."""
    _run: Callable[[MakeDetokenizer], None]

    def run(self, make: MakeDetokenizer) -> Result:
        """Run the check on detokenizers made by ``make``; raises none of their errors."""
        try:
            self._run(make)
        except ConformanceError as error:
            return Result(self.name, "failed", f"{self.promise}\n{error}")
        except NotImplementedError as error:
            lacking = str(error) or "a feature of this check"
            return Result(self.name, "skipped", f"the detokenizer lacks: {lacking}")
        except UnjudgedError as error:
            return Result(self.name, "skipped", str(error))
        return Result(self.name, "passed")


def check_detokenizer(make: MakeDetokenizer, **options: Any) -> Report:
    """Run all bug cases and laws on detokenizers made by ``make``.

    Args:
        make: Called with a tokenizer and a :class:`Request` for each stream. Returns an object with
            ``step`` and ``flush`` (:class:`Detokenizer`). An exception is a failure, except for
            NotImplementedError, which skips the checks that need the feature.
        options: The options of :func:`checks`.

    Raises TypeError if ``make`` cannot be called, ValueError and TypeError for invalid options.
    By default a run has about 5,000 streams, and takes at most half a minute with
    a fast detokenizer. If a detokenizer hangs, the run hangs.

    >>> from streamdec.testing import check_detokenizer
    >>> class OneByOne:
    ...     def __init__(self, tokenizer, request):
    ...         self.tokenizer = tokenizer
    ...     def step(self, token_ids):
    ...         return "".join(self.tokenizer.decode([token_id]) for token_id in token_ids)
    ...     def flush(self):
    ...         return ""
    >>> report = check_detokenizer(OneByOne, only=["whole_decode"], max_examples=20)
    >>> report.summary
    '0 passed, 3 failed, 0 skipped'
    """
    if not callable(make):
        raise TypeError(f"make must be a callable that returns detokenizers, not {make!r:.80}")
    return Report(tuple(check.run(make) for check in checks(**options)))


def checks(
    *,
    tokenizers: Mapping[str, Any] | None = None,
    strict: bool = False,
    only: Collection[str] = (),
    seed: int = 0,
    max_examples: int = 100,
) -> list[Check]:
    """Return all checks, bug cases first.

    Args:
        tokenizers: The tokenizers for the laws, by name: a path of a ``tokenizer.json`` or its
            folder, a ``tokenizers.Tokenizer``, a fast tokenizer of transformers, a tokenizer of
            streamdec (as returned by ``load_tokenizer``), or a :class:`Subject`. A path is opened
            as a ``tokenizers.Tokenizer``; others are passed to ``make`` unchanged. Default:
            :func:`small_tokenizers`. Bug cases have their own tokenizers.
        strict: Whether to include the laws about latency (no text is withheld without need), and
            the conventions of streamdec (which of several stops ends a text).
        only: Names of laws (``LAWS``), or ``"bug_case"``. Only these checks are included, also
            without ``strict``; by default all.
        seed: The seed of the examples (for the same versions of hypothesis and Python).
        max_examples: The number of examples of each law on each tokenizer.

    Raises ValueError for an unknown name in ``only`` or ``max_examples`` below 1, TypeError for an
    argument of a wrong type and for an object that is not a tokenizer, and TokenizerLoadError for a
    path that cannot be loaded. This function runs no check; call :meth:`Check.run`.

    >>> from streamdec.testing import checks
    >>> [check.name for check in checks(only=["prompt"])]
    ['prompt[byte_level]', 'prompt[byte_fallback]', 'prompt[wordpiece]']
    """
    if max_examples < 1:
        raise ValueError(f"max_examples must be at least 1, not {max_examples}")
    if isinstance(only, str):
        raise TypeError(f"only must be a list of names, not {only!r:.40}; write [{only!r:.40}]")
    if tokenizers is not None and not isinstance(tokenizers, Mapping):
        message = "tokenizers must be a dict from names to tokenizers, such as {'mine': tokenizer}"
        raise TypeError(f"{message}, not {tokenizers!r:.80}")
    names = {"bug_case", *(law.name for law in LAWS)}
    if strange := sorted(set(only) - names):
        raise ValueError(f"only has unknown names: {strange}; the names are {sorted(names)}")
    cases = bug_cases() if not only or "bug_case" in only else ()
    found = [_check_of_case(case, seed) for case in cases if strict or not case.convention]
    given_tokenizers = small_tokenizers() if tokenizers is None else tokenizers
    subjects = [subject_of(name, tokenizer) for name, tokenizer in given_tokenizers.items()]
    laws = [law for law in LAWS if law.name in only or (not only and (strict or not law.strict))]
    limits = _settings(max_examples)
    found += [_check_of_law(law, subject, seed, limits) for subject in subjects for law in laws]
    return found


# --- laws -----------------------------------------------------------------------------------------


def _settings(max_examples: int) -> settings:
    return settings(
        max_examples=max_examples,
        database=None,  # earlier examples came from other detokenizers
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def _check_of_law(law: Law, subject: Subject, seed: int, limits: settings) -> Check:
    run = partial(_try_law, law, subject, seed, limits)
    return Check(f"{law.name}[{subject.name}]", law.promise, run)


def _try_law(
    law: Law, subject: Subject, seed: int, limits: settings, make: MakeDetokenizer, /
) -> None:
    """Raise ConformanceError with the smallest example that fails.

    Raises NotImplementedError if the detokenizer supports no example.
    """
    tried = 0
    lacking: list[NotImplementedError] = []

    @with_seed(seed)
    @limits
    @given(st.data())
    def try_one(data: st.DataObject) -> None:
        nonlocal tried
        trial = Trial(subject, make, data)
        try:
            law.holds(trial)
        except NotImplementedError as error:
            lacking[:] = [error]
        else:
            tried += trial.fed

    try:
        try_one()
    except Unsatisfiable:
        raise UnjudgedError("no example could be made for this tokenizer") from None
    except Flaky as error:
        seen = [str(each) for each in getattr(error, "exceptions", ())][:1]
        raise ConformanceError("\n".join([*seen, CHANGEABLE])) from error
    if lacking and not tried:
        raise lacking[0]


# --- bug cases ------------------------------------------------------------------------------------


def _check_of_case(case: BugCase, seed: int) -> Check:
    promise = f"{case.note} ({case.source})"
    return Check(f"bug_case[{case.id}]", promise, partial(_try_case, case, seed))


def _try_case(case: BugCase, seed: int, make: MakeDetokenizer, /) -> None:
    skipped = {case.tokens[place] for place in case.skipped}
    shown = [token for token in (*case.tokens, *case.prompt) if token not in skipped]
    tokenizer, id_of = byte_level_tokenizer(shown, sorted(skipped))
    ids = [id_of[token] for token in case.tokens]
    request = Request(
        tuple(id_of[token] for token in case.prompt),
        stop=tuple(stop for stop in case.stop if stop),
        include_stop_str_in_output=case.include_stop_str_in_output,
        min_tokens=case.min_tokens,
    )
    driven = Driven(subject_of(case.id, tokenizer), make)
    for groups in [[[i] for i in ids], [ids], *_random_groups(ids, f"{seed} {case.id}")]:
        driven.expect(request, groups, case.expected_text, case.expected_stop_reason)


def _random_groups(ids: list[int], seed: str) -> Iterator[list[list[int]]]:
    chance = random.Random(seed)
    for _ in range(GROUPINGS):
        bounds = sorted({0, len(ids), *chance.choices(range(len(ids) + 1), k=3)})
        yield [ids[i:j] for i, j in pairwise(bounds)]
