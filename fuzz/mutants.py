"""``python -m fuzz.mutants``: breaks each law in the code, and sees whether the suite notices.

A *mutant* is one line of the code changed so that a law no longer holds. Each is tried on a copy of
the working tree; the tests named with it must fail. One that survives is a gap in the tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv", ".nox", "build", "dist", ".hypothesis", "__pycache__", ".*_cache")
)
TESTS_FAILED = 1
"""What pytest exits with; other numbers say that it could not run them."""

LAWS = ("tests/test_laws.py",)
STOP_LAWS = ("tests/test_stop_laws.py",)


class Mutant(NamedTuple):
    """A line changed, so that a law is broken."""

    law: str
    """Its number, and what is wrong now."""
    path: str
    old: str
    """Found once in the file."""
    new: str
    tests: Sequence[str] = LAWS
    """Arguments of pytest."""


def _core(law: str, module: str, old: str, new: str, tests: Sequence[str] = LAWS) -> Mutant:
    return Mutant(law, f"streamdec/core/{module}.py", old, new, tests)


MUTANTS = (
    _core(
        "0: a snapshot forgets the unfinished character",
        "program",
        '"pending": pending.hex(),\n            "tails": list(tails),',
        '"pending": "",\n            "tails": list(tails),',
    ),
    _core(
        "0: what a row knows depends on who asked first",
        "rows",
        "if not (memory is self.rest and after == memory):",
        "if after != self.rest:",
    ),
    _core(
        "0: a snapshot with stops forgets how old the jailed text is",
        "stop_json",
        '_ages(data.get("tail_ages", 1), len(tail)),',
        "(1,) * len(tail),",
        STOP_LAWS,
    ),
    _core(
        "1: unfinished characters are given out",
        "utf8",
        "text, used = utf_8_decode(data, errors, False)",
        "text, used = utf_8_decode(data, errors, True)",
    ),
    _core(
        "1: a finished run of bytes is withheld longer than need be",
        "byte_runs",
        "return run_close(state) + element, None",
        'return run_close(state), (((None, 65), 1, b""))',
    ),
    _core(
        "1: one letter too few is jailed",
        "gated_matcher",
        "kept = len(self.matcher.jailed(tail))",
        "kept = max(len(self.matcher.jailed(tail)) - 1, 0)",
        STOP_LAWS,
    ),
    _core(
        "1: one letter too many is jailed",
        "gated_matcher",
        "out = withheld[: len(withheld) - kept]",
        "out = withheld[: max(len(withheld) - kept - (kept > 0), 0)]",
        STOP_LAWS,
    ),
    _core(
        "2: a surrogate's second byte does not decide",
        "utf8",
        "rest[0] == 0xED and rest[1] > 0x9F",
        "rest[0] == 0xED and rest[1] > 0xBF",
    ),
    _core(
        "3: the end gives no U+FFFD for what is pending",
        "program",
        "text += utf8.flush(rest, self.token_bytes.errors)",
        'text += rest.decode(errors="ignore")',
    ),
    _core(
        "3: the end lets go of what was jailed without a look",
        "stop_endings",
        "if outcome.hit is not None:\n        return at_hit(outcome, released=True)",
        "if outcome.hit is not None and False:\n        return at_hit(outcome, released=True)",
        STOP_LAWS,
    ),
    _core(
        "3: what was jailed is lost at the end",
        "stop_endings",
        "return outcome._replace(text=outcome.text + outcome.memory.withheld)",
        "return outcome",
        STOP_LAWS,
    ),
    _core(
        "4: the prompt is forgotten",
        "decode_stream",
        "self._primed = self._program.prime(prompt)",
        "self._primed = self._program.prime(())",
    ),
    _core(
        "4: of a prompt only the last byte counts",
        "token_bytes",
        "if len(tail) >= 3:",
        "if len(tail) >= 1:",
        ("tests/core/test_token_bytes.py", *LAWS),
    ),
    _core(
        "5: the leading space is taken off every token",
        "byte_runs",
        "metaspace_forms(self._rule, text)[came == self.MORE]",
        "metaspace_forms(self._rule, text)[False]",
    ),
    _core(
        "6: one U+FFFD too few for a broken run",
        "byte_runs",
        "return REPLACEMENT_BYTES * (length + 1), BROKEN",
        "return REPLACEMENT_BYTES * length, BROKEN",
    ),
    _core(
        "6: a clean-up forgets what it withheld",
        "rewrite",
        "text, tail = _replace(rule, tail + text)",
        "text, tail = _replace(rule, text)",
    ),
    _core(
        "7: an added token of other letters is nothing",
        "token_bytes",
        "    except UnicodeEncodeError:\n        return piece.encode()",
        '    except UnicodeEncodeError:\n        return b""',
    ),
    _core(
        "8: a skipped special breaks off a character",
        "token_bytes",
        'return (b"", state) if element is None else self.advance(state, element)',
        'return (b"\\xff", state) if element is None else self.advance(state, element)',
    ),
    _core(
        "8: a stop that is a skipped special is looked for as text only",
        "stop_programs",
        "found[text] = token_id",
        "pass",
        (*STOP_LAWS, "tests/core"),
    ),
    _core(
        "9: the shortest of the stops that are complete together counts",
        "jail",
        "{len(stop) for stop in self._stops}, reverse=True)",
        "{len(stop) for stop in self._stops})",
        STOP_LAWS,
    ),
    _core(
        "9: a stop may begin within one that was given up",
        "jail",
        "while tail and not self._begins(tail):\n                tail = tail[1:]",
        'if not self._begins(tail):\n                tail = ""',
        STOP_LAWS,
    ),
    _core(
        "10: what comes before a stop in its token is lost",
        "gated_matcher",
        "end if hit.visible else max(end - hit.size, 0)",
        "end if hit.visible else 0",
        STOP_LAWS,
    ),
    _core(
        "10: a hidden stop is shown",
        "gated_matcher",
        "end if hit.visible else max(end - hit.size, 0)",
        "end",
        STOP_LAWS,
    ),
    _core(
        "11: the token after min_tokens is ignored too",
        "stop_sequence",
        "return self.num_tokens < self._program.conditions.min_tokens",
        "return self.num_tokens <= self._program.conditions.min_tokens",
        STOP_LAWS,
    ),
    _core(
        "11: a token more than max_tokens",
        "stop_sequence",
        "left = MOST_TALLIED if limit is None else limit - tokens_in(count)",
        "left = MOST_TALLIED if limit is None else limit + 1 - tokens_in(count)",
        STOP_LAWS,
    ),
    _core(
        "12: a stop may begin before the marker that arms it",
        "gated_matcher",
        "place, gate = armed_from + turn.end, Gate(is_open=not gate.is_open)",
        "place, gate = armed_from, Gate(is_open=not gate.is_open)",
        STOP_LAWS,
    ),
    _core(
        "12: a stop sleeps on across a closed gate",
        "gated_matcher",
        'tail, tail_ages, live = "", (), ()',
        "live = ()",
        STOP_LAWS,
    ),
    _core(
        "13: a lone surrogate is a stop",
        "stop_conditions",
        'raise ValueError(f"{name}: {text!r:.60} has a lone surrogate") from None',
        "return",
        ("tests/core/test_stop_conditions.py",),
    ),
    _core(
        "14: a stream with stops goes on after its end",
        "stop_sequence",
        "if self._end is not None:\n            raise FinishedError(",
        "if self._end is not None and False:\n            raise FinishedError(",
        STOP_LAWS,
    ),
    _core(
        "14: a stream goes on after its end",
        "decode_stream",
        "self._go(LoneRow(memory))\n        self._finished = True",
        "self._go(self._program.row(memory))\n        self._finished = True",
    ),
    _core(
        "15: rows are never forgotten",
        "rows",
        "if self._entries >= self._max_entries:",
        "if self._entries >= 10**9:",
    ),
    _core(
        "15: programs of stops are never forgotten",
        "shelf",
        "while len(self) > self.max_tables:",
        "while len(self) > 10**9:",
        ("tests/core/test_shelf.py",),
    ),
    _core(
        "16: the text before a bad id is lost",
        "decode_stream",
        'error.chunk = Chunk("".join(texts))',
        "error.chunk = Chunk()",
    ),
    _core(
        "16: a bool is an id",
        "decode_stream",
        "if token_id > 1 or (type(token_id) is int and token_id >= 0):",
        "if token_id >= 0:",
        ("tests/core/test_rows.py", *LAWS),
    ),
    _core(
        "16: a token that could not be taken is counted",
        "stop_sequence",
        "self._row, self._counted, self._tally_start, self._tally, self._unknown_tokens = before",
        "self._row = before[0]",
        ("tests/test_stop_laws.py", "tests/test_regex_stops.py"),
    ),
    _core(
        "17: a token of a shared character begins after it",
        "spans",
        "if first <= span.first < last:",
        "if first == span.first:",
    ),
    _core(
        "positions: bytes are counted as code points",
        "counting",
        "return len(text) * _CODE_POINT + (len(text.encode()) - len(text)) * _FURTHER_BYTE",
        "return len(text) * _CODE_POINT",
        STOP_LAWS,
    ),
    _core(
        "positions: a token too many comes before the stop",
        "stop_sequence",
        "max(last - span.age, 0),",
        "max(last - span.age + 1, 0),",
        STOP_LAWS,
    ),
    Mutant(
        "async: the source is asked once more after the end",
        "streamdec/aio.py",
        "                    flow.last = chunk\n                    break",
        "                    flow.last = chunk\n                    await anext(source, None)\n"
        "                    break",
        ("tests/aio",),
    ),
)


class Outcome(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    exit_status: int
    seconds: float
    output: str

    @property
    def is_caught(self) -> bool:
        """Whether a test failed."""
        return self.exit_status == TESTS_FAILED


def changed(mutant: Mutant, root: Path) -> None:
    """Makes the change in the tree at ``root``. ValueError if its line is not found, once."""
    path = root / mutant.path
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.law}: {mutant.path} has {text.count(mutant.old)} times {mutant.old!r}"
        )
    path.write_text(text.replace(mutant.old, mutant.new))


def tried(mutant: Mutant) -> Outcome:
    """The mutant's tests, run on a copy of the working tree."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        shutil.copytree(ROOT, root, ignore=NOT_COPIED)
        changed(mutant, root)
        if (ROOT.parent / "shared").is_dir():
            (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = os.environ | {"HYPOTHESIS_PROFILE": "unshrunk", "PYTHONPATH": str(root)}
        began = time.monotonic()
        done = subprocess.run(
            [*command, *mutant.tests],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return Outcome(mutant, done.returncode, time.monotonic() - began, done.stdout + done.stderr)


def report(outcomes: Iterable[Outcome]) -> int:
    """Prints a line for each as it comes; how many were not caught."""
    survivors = 0
    for mutant, status, seconds, output in outcomes:
        is_caught = status == TESTS_FAILED
        survivors += not is_caught
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        by = failed[0].split(" - ")[0].removeprefix("FAILED ") if failed else f"exit {status}"
        print(f"{'caught ' if is_caught else 'SURVIVED'} {seconds:5.0f} s  {mutant.law}  ({by})")
    return survivors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.mutants", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a part of what is broken")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if all(part in mutant.law for part in options.only)]
    survivors = report(map(tried, chosen))
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
