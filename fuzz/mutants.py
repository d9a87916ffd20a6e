"""``python -m fuzz.mutants``: break each law in the code, and check that a test fails.

A *mutant* is one changed line of the code that breaks a law. The tests named with it run on a copy
of the working tree, and must fail. A mutant that survives shows a gap in the tests.
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
"""The exit statuses of pytest after a run; others mean that no test could run."""

CORE_TESTS = ("tests/tables", "tests/stops", "tests/decoders")
LAWS = ("tests/test_laws.py",)
STOP_LAWS = ("tests/test_stop_laws.py",)
PATTERN_LAWS = ("tests/test_stop_patterns.py",)
SECTION_LAWS = ("tests/test_stop_model.py",)


class Mutant(NamedTuple):
    """A changed line that breaks a law."""

    law: str
    """The number of the law, and the broken behavior."""
    path: str
    old: str
    """The original text, which occurs once in the file."""
    new: str
    tests: Sequence[str] = LAWS
    """Arguments of pytest."""


def _core(law: str, module: str, old: str, new: str, tests: Sequence[str] = LAWS) -> Mutant:
    return Mutant(law, f"streamdec/{module}.py", old, new, tests)


MUTANTS = (
    _core(
        "0: a snapshot forgets the unfinished character",
        "tables/byte_table",
        '"pending": pending.hex(),',
        '"pending": "",',
    ),
    _core(
        "0: a stream does not move to the next state",
        "decoders/step",
        "self._row, self._moved = row, tally",
        "self._moved = tally",
    ),
    _core(
        "0: several ids at once do not move to the next state",
        "decoders/step",
        "self._row = row = then",
        "row = then",
    ),
    _core(
        "0: several ids at once leave the offsets behind",
        "decoders/step",
        "elif self._moved != tally:",
        "elif self._moved == tally:",
        CORE_TESTS,
    ),
    _core(
        "0: several ids at once take an id that is a stop for text",
        "decoders/step",
        "and token_id not in (self._ids or ())",
        "and token_id >= 0",
        CORE_TESTS,
    ),
    _core(
        "0: a snapshot with stops forgets where the jailed text came from",
        "decoders/snapshots",
        'marks = _marks(fields.take("marks", []), tokens, code_points)',
        'fields.take("marks", [])\n    marks = ()',
        STOP_LAWS,
    ),
    _core(
        "0: what a state knows of a text depends on min_tokens when it was stored",
        "stops/stop_set",
        "read = self.read(state, text)\n",
        "read = self.read(state, text, ignore=True)\n",
        STOP_LAWS,
    ),
    _core(
        "1: unfinished characters are output",
        "tables/utf8",
        "text, used = utf_8_decode(data, errors, False)",
        "text, used = utf_8_decode(data, errors, True)",
    ),
    _core(
        "1: a finished run of bytes is withheld longer than need be",
        "tables/token_rules/byte_fallback",
        "return run_close(state) + element, None",
        'return run_close(state), (((None, 65), 1, b""))',
    ),
    _core(
        "1: one letter too few is jailed",
        "stops/stop_set",
        "kept = len(after_state.jailed)",
        "kept = max(len(after_state.jailed) - 1, 0)",
        STOP_LAWS,
    ),
    _core(
        "1: one letter too many is jailed",
        "stops/stop_set",
        "return Read(withheld[: len(withheld) - kept], after_state)",
        "return Read(withheld[: -kept - 1 if kept else None], after_state)",
        STOP_LAWS,
    ),
    _core(
        "1: a token is not looked at though its letters may begin a stop",
        "stops/stop_set",
        'alert |= letters_of("".join(letters | self.gate.firsts(gate)))',
        'alert |= letters_of("".join(sorted(letters | self.gate.firsts(gate))[1:]))',
        STOP_LAWS,
    ),
    _core(
        "2: a surrogate's second byte does not decide",
        "tables/utf8",
        "rest[0] == 0xED and rest[1] > 0x9F",
        "rest[0] == 0xED and rest[1] > 0xBF",
    ),
    _core(
        "3: the end gives no U+FFFD for what is unfinished",
        "tables/byte_table",
        "return text + utf8.flush(rest, self.rule.errors)",
        'return text + rest.decode(errors="ignore")',
    ),
    _core(
        "3: the end does not match the text that it releases",
        "stops/endings",
        "return found or Ending(text)",
        "return Ending(text)",
        STOP_LAWS,
    ),
    _core(
        "3: what was jailed is lost at the end",
        "stops/endings",
        "return (read.text, found) if found else (read.text + read.after.jailed, None)",
        "return (read.text, found) if found else (read.text, None)",
        STOP_LAWS,
    ),
    _core(
        "4: the prompt is forgotten",
        "decoders/state",
        "table.state(table.row(table.prime(prompt)))",
        "table.state(table.row(table.prime(())))",
    ),
    _core(
        "4: of a prompt only the last byte counts",
        "tables/token_rules/base",
        "if len(tail) >= 3:",
        "if len(tail) >= 1:",
        (*CORE_TESTS, *LAWS),
    ),
    _core(
        "5: the leading space is taken off every token",
        "tables/token_rules/byte_fallback",
        "metaspace_forms(self._rule, text)[came == self.MORE]",
        "metaspace_forms(self._rule, text)[False]",
    ),
    _core(
        "6: one U+FFFD too few for a broken run",
        "tables/token_rules/byte_fallback",
        "return REPLACEMENT_BYTES * (length + 1), BROKEN",
        "return REPLACEMENT_BYTES * length, BROKEN",
    ),
    _core(
        "6: a clean-up forgets what it withheld",
        "tables/replacers",
        "text, tail = _replace(rule, tail + text)",
        "text, tail = _replace(rule, text)",
    ),
    _core(
        "7: an added token of other letters has no text",
        "tables/token_rules/base",
        "    except UnicodeEncodeError:\n        return piece.encode()",
        '    except UnicodeEncodeError:\n        return b""',
    ),
    _core(
        "8: a skipped special token breaks off a character",
        "tables/byte_table",
        'Contribution(b"", 0, contributes=False',
        'Contribution(b"\\xff", 0, contributes=False',
    ),
    _core(
        "8: a stop that is a skipped special is looked for as text only",
        "stops/stop_sets",
        "= find(texts) if find else _found(tokenizer, texts)",
        "= {}",
        (*STOP_LAWS, *CORE_TESTS),
    ),
    _core(
        "9: the shortest of the stops that are complete together counts",
        "stops/matcher",
        "sorted({*map(len, self._stops)}, reverse=True)",
        "sorted({*map(len, self._stops)})",
        STOP_LAWS,
    ),
    _core(
        "9: a stop may begin within one that was given up",
        "stops/matcher",
        "while tail and not begins(tail):\n                tail = tail[1:]",
        'if not begins(tail):\n                tail = ""',
        STOP_LAWS,
    ),
    _core(
        "9: a match may be longer than max_match_length",
        "stops/patterns",
        "(1 << max(most + 1 - least, 0)) - 1",
        "(1 << max(most + 2 - least, 0)) - 1",
        PATTERN_LAWS,
    ),
    _core(
        "9: the shortest match of a pattern counts",
        "stops/automaton",
        "return State(left, facts, _oldest(alive)), _oldest(matched)",
        "return State(left, facts, _oldest(alive)), _oldest(matched & -matched)",
        PATTERN_LAWS,
    ),
    _core(
        "9: what cannot become a match is withheld",
        "stops/automaton",
        "first, alive = self._first, waiting",
        "first, alive = self._first, waiting | max(paths.values())",
        PATTERN_LAWS,
    ),
    _core(
        r"9: \b holds at the end of the text",
        "stops/automaton",
        "elif after is None:",
        "elif after is None and before & value[0] == 0:",
        PATTERN_LAWS,
    ),
    _core(
        "9: a loop is not gone through again",
        "stops/automaton",
        "later.append(each)",
        "continue",
        PATTERN_LAWS,
    ),
    _core(
        "9: a look-behind begins only with a match",
        "stops/automaton",
        "[*self._looks, self._start])\n            known = state",
        "[self._start])\n            known = state",
        PATTERN_LAWS,
    ),
    _core(
        "12: ^ is not where the gate opened",
        "stops/automaton",
        "return State(state.paths, state.before | self.asks & AT_PLACE)",
        "return state",
        PATTERN_LAWS,
    ),
    _core(
        "10: text before a stop in its token is lost",
        "stops/stop_set",
        "size = len(state.jailed) + end - (0 if hit.visible else hit.size)",
        "size = len(state.jailed) + end if hit.visible else 0",
        STOP_LAWS,
    ),
    _core(
        "10: a hidden stop is shown",
        "stops/stop_set",
        "size = len(state.jailed) + end - (0 if hit.visible else hit.size)",
        "size = len(state.jailed) + end",
        STOP_LAWS,
    ),
    _core(
        "11: the token after min_tokens is ignored too",
        "decoders/walk",
        "ignore = index < stops.conditions.min_tokens\n        if index",
        "ignore = index <= stops.conditions.min_tokens\n        if index",
        STOP_LAWS,
    ),
    _core(
        "11: a token more than max_tokens",
        "decoders/walk",
        "is_last = self._stops.conditions.max_tokens == index + 1",
        "is_last = self._stops.conditions.max_tokens == index",
        STOP_LAWS,
    ),
    _core(
        "12: a stop may begin before the marker that arms it",
        "stops/stop_set",
        'tail = matcher.skip(tail, "" if is_open else part[:turn])',
        "tail = tail if is_open else matcher.step(tail, part[:turn], ignore=True)[0]",
        STOP_LAWS,
    ),
    _core(
        "12: a look-behind does not see what came before the gate opened",
        "stops/stop_set",
        "                if not is_open:\n                    tail = matcher.skip(tail, part)\n",
        "",
        ("tests/test_stop_patterns.py", "tests/test_stop_model.py"),
    ),
    _core(
        "13: a lone surrogate is a stop",
        "stops/conditions",
        "            text.encode()\n        except UnicodeEncodeError",
        "            pass\n        except UnicodeEncodeError",
        ("tests/stops/test_stop_conditions.py",),
    ),
    _core(
        "14: a stream with stops goes on after its end",
        "decoders/walk",
        "self._row = ENDED\n        if self._recorder is not None:",
        "if self._recorder is not None:",
        STOP_LAWS,
    ),
    _core(
        "14: a stream goes on after its end",
        "decoders/walk",
        '''        """Do a step on the slow path: all cases, and all errors."""
        self._check_running()
''',
        '''        """Do a step on the slow path: all cases, and all errors."""
''',
    ),
    _core(
        "15: rows are never emptied",
        "tables/table",
        "if self._num_stored > MAX_TRANSITIONS:",
        "if self._num_stored > 10**9:",
        ("tests/tables/test_table.py",),
    ),
    _core(
        "15: stop sets are never dropped",
        "stops/stop_sets",
        "len(self._sets) > MAX_SETS or self._size > MAX_SETS_SIZE",
        "len(self._sets) > 10**9",
        (*CORE_TESTS, "tests/metrics"),
    ),
    _core(
        "15: each alternative that matches nothing is followed",
        "stops/patterns",
        "dict.fromkeys(self._add(each, place, then) for each in value)",
        "[self._add(each, place, then) for each in value]",
        ("tests/stops/test_automaton.py", "tests/test_security_bounds.py"),
    ),
    _core(
        "16: the text before a bad id is lost",
        "decoders/step",
        'error.chunk, error.num_taken = Chunk("".join(texts)), len(texts)',
        "error.chunk, error.num_taken = Chunk(), len(texts)",
    ),
    _core(
        "16: a bool is an id",
        "decoders/step",
        "True.\n            if token_id > 1 or (type(token_id) is int and token_id >= 0):",
        "True.\n            if token_id >= 0:",
    ),
    _core(
        "16: a bool in a list is an id",
        "decoders/step",
        "                    if token_id > 1 or (type(token_id) is int and token_id >= 0):",
        "                    if token_id >= 0:",
    ),
    _core(
        "16: a token that could not be taken is counted",
        "decoders/walk",
        "                setattr(self, name, value)\n            raise",
        "                pass\n            raise",
        ("tests/decoders/test_stop_sequence_decoder.py",),
    ),
    _core(
        "17: a token of a shared character begins after it",
        "tables/spans",
        "if first <= span.first < last:",
        "if first == span.first:",
    ),
    _core(
        "18: a stop may have a part before a release",
        "stops/stop_set",
        'return self.state(state.gate, self.matcher.restart(state.tail), "")',
        'return self.state(state.gate, state.tail, "")',
        ("tests/decoders/test_one_machine.py",),
    ),
    _core(
        "18: a release loses the unfinished character",
        "tables/byte_table",
        "text = self.replacers.flush(tails, self._final(pending + data))",
        "text = self.replacers.flush(tails, self._final(data))",
        ("tests/decoders/test_one_machine.py",),
    ),
    _core(
        "19: text before a marker is in the section that the marker begins",
        "decoders/section_reader",
        "parts.append((self.section, unread[: end - marker.size]))",
        "parts.append((self.names[after], unread[: end - marker.size]))",
        SECTION_LAWS,
    ),
    _core(
        "19: text before a marker id is in the section that the id begins",
        "decoders/section_reader",
        "parts += self.release()\n",
        "self.at = after\n            parts += self.release()\n",
        SECTION_LAWS,
    ),
    _core(
        "positions: bytes are counted as code points",
        "tables/counting",
        "size + ((len(text.encode()) - len(text)) << _FURTHER_BYTES)",
        "size",
        STOP_LAWS,
    ),
    _core(
        "positions: a token too many comes before the stop",
        "stops/marks",
        "return next((tokens_in(mark) - 1 for mark in marks if code_points_in(mark) > place), 0)",
        "return next((tokens_in(mark) for mark in marks if code_points_in(mark) > place), 0)",
        STOP_LAWS,
    ),
    Mutant(
        "async: the source is asked once more after the end",
        "streamdec/streams/text_stream.py",
        "                    reading.finish(chunk)\n                    break\n"
        "                left -= 1",
        "                    reading.finish(chunk)\n                    await anext(source, None)\n"
        "                    break\n"
        "                left -= 1",
        ("tests/streams",),
    ),
)


class Outcome(NamedTuple):
    """The outcome of a mutant."""

    mutant: Mutant
    exit_status: int
    seconds: float
    output: str

    @property
    def is_caught(self) -> bool:
        """Return whether a test failed."""
        return self.exit_status == TESTS_FAILED


def changed(mutant: Mutant, root: Path) -> None:
    """Change the tree at ``root``. Raises ValueError unless the text occurs exactly once."""
    path = root / mutant.path
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"{mutant.law}: {mutant.path} has {text.count(mutant.old)} times {mutant.old!r}"
        )
    path.write_text(text.replace(mutant.old, mutant.new))


def tried(mutant: Mutant) -> Outcome:
    """Run the mutant's tests on a copy of the working tree."""
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
    """Print a line for each outcome. Return the number of survivors."""
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
    parser.add_argument(
        "--only", action="append", default=[], help="a part of the name of a mutant, such as '12: '"
    )
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if all(part in mutant.law for part in options.only)]
    if not chosen:
        parser.error(f"no mutant has {options.only} in its name")
    survivors = report(map(tried, chosen))
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
