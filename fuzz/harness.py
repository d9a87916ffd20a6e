"""The harness of all targets, which calls a law with many inputs.

A target is a function of bytes that returns for a correct result; any exception is a finding. With
atheris, libFuzzer chooses the bytes by the branches of streamdec that they reach. Without it,
hypothesis draws them. Both test the seeds of the target first. A finding is written to a file that
replays it.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import importlib
import importlib.util
import itertools
import logging
import random
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from fuzz.cases import NoCaseError
from fuzz.edits import LONGEST, Edit, edit_bytes, smaller

__all__ = ["CORPUS", "FINDINGS", "Finding", "Target", "attempt", "corpus_of", "hunt", "main"]

FOLDER = Path(__file__).resolve().parent
CORPUS = FOLDER / "corpus"
FINDINGS = FOLDER / "findings"
EXAMPLES = 100
"""Examples of hypothesis between two checks of the time."""
MOST_TRIES = 2_000
"""The most attempts to make a finding smaller."""
MOST_SECONDS = 30
"""The most seconds of one input."""
MOST_MEGABYTES = 3_000
"""The most memory of the process."""
FOUND = 1
"""The exit status after a finding (libFuzzer's own is 77)."""


@dataclass(frozen=True)
class Target:
    """A law, and its inputs."""

    name: str
    law: Callable[[bytes], object]
    """Raises if the case of the bytes breaks the law; NoCaseError for bytes without a case."""
    seeds: Callable[[], Mapping[str, bytes]] = dict
    """Makes small cases by the names of their files, if they are not written by hand."""
    edit: Edit | None = None
    """Edits a known input, if edits of single bytes would mostly make it invalid."""
    shown: Callable[[bytes], str] = ascii
    """Returns the case in readable form."""
    command: str = ""
    """Its module and argument, if they are not its name."""
    is_timed: bool = False
    """Whether the law bounds CPU time: atheris makes the code several times slower, so hypothesis
    draws the inputs."""

    @property
    def module(self) -> str:
        """What follows ``python -m``."""
        return f"fuzz.{self.command or self.name}"

    @property
    def folder(self) -> Path:
        """The folder of its seeds."""
        return CORPUS / self.name


class Finding(NamedTuple):
    """An input that breaks the law."""

    data: bytes
    error: BaseException


def attempt(target: Target, data: bytes) -> Finding | None:
    """Test the law with one input."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.law(data)
    except NoCaseError:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (any is a finding, a library's panic too)
        return Finding(data, error)
    return None


def corpus_of(target: Target) -> dict[str, bytes]:
    """Return the committed seeds by the names of their files."""
    return {path.name: path.read_bytes() for path in sorted(target.folder.iterdir())}


# --- hypothesis -----------------------------------------------------------------------------------


def hunt(target: Target, seconds: float, number: int) -> Finding | int:
    """Test the seeds and then inputs of hypothesis. Return a small finding, or the count."""
    seeds = [*corpus_of(target).values()]
    for data in seeds:
        if finding := attempt(target, data):
            return finding
    tried, end = len(seeds), time.monotonic() + seconds
    for round_ in itertools.count(number):
        if time.monotonic() > end:
            break
        found = _round(target, seeds, round_)
        if isinstance(found, Finding):
            return found
        tried += found
    return tried


def _round(target: Target, seeds: Sequence[bytes], number: int) -> Finding | int:
    last: list[bytes] = []

    @seeded(number)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # ``smaller`` shrinks JSON better than hypothesis does
    )
    @given(inputs(target, seeds))
    def holds(data: bytes) -> None:
        last.append(data)
        if finding := attempt(target, data):
            raise finding.error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            holds()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (any is a finding)
        return smallest(target, Finding(last[-1], error))
    return len(last)


def smallest(target: Target, finding: Finding) -> Finding:
    """Return a smaller finding with the same kind of error, by leaving out parts."""
    tries, kind = MOST_TRIES, type(finding.error)
    found: Finding | None = finding
    while found and tries:
        finding, found = found, None
        for data in itertools.islice(smaller(finding.data), tries):
            tries -= 1
            found = attempt(target, data)
            if found and isinstance(found.error, kind):
                break
            found = None
    return finding


def inputs(target: Target, seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Draw seeds with several edits, and random bytes."""
    edit = target.edit or edit_bytes
    known = st.sampled_from([*seeds, b""])
    times = st.sampled_from([1, 1, 1, 2, 4, 8])
    return st.one_of(
        *[st.builds(functools.partial(_edited, edit), known, times, _CHOICES)] * 4,
        st.builds(functools.partial(_edited, edit_bytes), known, times, _CHOICES),
        st.binary(max_size=64),
    )


_CHOICES = st.randoms(use_true_random=False)


def _edited(edit: Edit, data: bytes, times: int, choose: random.Random) -> bytes:
    for _ in range(times):
        data = edit(data, choose)
    return data[:LONGEST]


# --- atheris --------------------------------------------------------------------------------------


def has_atheris() -> bool:
    """Return whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def fuzz(target: Target, options: argparse.Namespace, more: Iterable[str]) -> None:
    """Run libFuzzer, which ends the process."""
    atheris = importlib.import_module("atheris")
    instrument(atheris)
    folder = FINDINGS / target.name
    folder.mkdir(parents=True, exist_ok=True)

    def one(data: bytes) -> None:
        if finding := attempt(target, data):
            print(f"\n{target.name} does not hold of\n{target.shown(data)}", flush=True)
            raise finding.error

    def mutated(data: bytes, max_size: int, number: int) -> bytes:
        assert target.edit
        choose = random.Random(number)
        if choose.random() < 0.2:
            return bytes(atheris.Mutate(data, max_size))
        return target.edit(data, choose)[:max_size]

    arguments = [
        sys.argv[0],
        f"-max_total_time={max(round(options.seconds), 1)}",
        f"-artifact_prefix={folder}/",
        f"-max_len={LONGEST}",
        "-len_control=0",
        f"-timeout={MOST_SECONDS}",
        f"-rss_limit_mb={MOST_MEGABYTES}",
        f"-seed={options.seed or 0}",
        *more,
        *_corpora(target, keep=options.keep),
    ]
    atheris.Setup(arguments, one, **({"custom_mutator": mutated} if target.edit else {}))
    warnings.simplefilter("ignore")
    atheris.Fuzz()


def _corpora(target: Target, *, keep: bool) -> list[str]:
    """The seeds; and where libFuzzer may put what else reaches new branches, which is not there."""
    if not keep:
        return [f"-seed_inputs={','.join(map(str, sorted(target.folder.iterdir())))}"]
    grown = FINDINGS / target.name / "corpus"
    grown.mkdir(exist_ok=True)
    return [str(grown), str(target.folder)]


def instrument(atheris: Any) -> int:
    """Instrument the branches of streamdec for libFuzzer. Return the number of functions.

    Only imported modules are instrumented, so a target must import the modules that it tests.
    """
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, types.FunctionType)
        and (each.__module__ or "").partition(".")[0] == "streamdec"
    ]
    for function in functions:
        atheris.instrument_func(function)
    return len(functions)


# --- the command ----------------------------------------------------------------------------------


def main(target: Target, arguments: Sequence[str] | None = None) -> int:
    """``python -m fuzz.<target>``; the exit status."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {target.module}",
        epilog="Further options (-jobs=2, -runs=1000) are libFuzzer's.",
    )
    parser.add_argument("files", nargs="*", type=Path, help="replay only these inputs")
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, help="the same choices again")
    parser.add_argument(
        "--without-atheris", action="store_true", help="hypothesis, even if atheris is installed"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="begin with the inputs that earlier runs kept, and keep more",
    )
    parser.add_argument("--seeds", action="store_true", help="only write the seeds")
    parser.add_argument("--show", action="store_true", help="show FILES as cases")
    parser.add_argument(
        "--smaller", action="store_true", help="write a smaller input beside each finding of FILES"
    )
    options, more = parser.parse_known_args(arguments)
    if absent := [str(path) for path in options.files if not path.exists()]:
        parser.error(f"no such file: {', '.join(absent)}")
    with quiet():
        return _run(target, options, more, parser)


@contextmanager
def quiet() -> Iterator[None]:
    """Disable logging in a context, because hostile inputs would fill the screen."""
    logger = logging.getLogger("streamdec")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _run(
    target: Target,
    options: argparse.Namespace,
    more: Sequence[str],
    parser: argparse.ArgumentParser,
) -> int:
    if options.seeds:
        return write_seeds(target)
    if options.files:
        return replay(target, options.files, show=options.show, small=options.smaller)
    if has_atheris() and not (options.without_atheris or target.is_timed):
        fuzz(target, options, more)
        return 0
    if more:
        parser.error(f"{' '.join(more)}: these are libFuzzer's, which comes with atheris")
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    return report(target, hunt(target, options.seconds, seed))


def write_seeds(target: Target) -> int:
    """Write the generated seeds of the target, beside the seeds that were written by hand."""
    target.folder.mkdir(parents=True, exist_ok=True)
    for name, data in target.seeds().items():
        (target.folder / name).write_bytes(data)
    return 0


def replay(
    target: Target, files: Iterable[Path], *, show: bool = False, small: bool = False
) -> int:
    """Tries the law on each of ``files``; folders stand for their files."""
    paths = [path for file in files for path in _files(file)]
    failed = 0
    for file in paths:
        path, data = file, file.read_bytes()
        finding = attempt(target, data)
        if finding and small:
            finding = smallest(target, finding)
            path = path.with_name(f"{path.name}-smaller")
            path.write_bytes(finding.data)
        if show or finding:
            print(f"{path}\n{target.shown(finding.data if finding else data)}")
        if finding:
            failed += 1
            traceback.print_exception(finding.error, file=sys.stdout)
    print(f"{len(paths)} replayed, {failed} findings")
    return FOUND if failed else 0


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.is_file())


def report(target: Target, outcome: Finding | int) -> int:
    """Print the outcome, write a finding to a file, and return the exit status."""
    if isinstance(outcome, int):
        print(f"{outcome:9,} inputs of {target.name}, no finding")
        return 0
    folder = FINDINGS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"crash-{hashlib.sha1(outcome.data).hexdigest()}"  # libFuzzer's name
    path.write_bytes(outcome.data)
    traceback.print_exception(outcome.error, file=sys.stdout)
    print(f"\n{target.name} does not hold of\n{target.shown(outcome.data)}")
    print(f"replay with: python -m {target.module} {path}")
    return FOUND
