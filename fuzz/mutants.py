"""``python -m fuzz.mutants``: break each law in the code, and check that a test fails.

A *mutant* is one changed line of the code that breaks a law. The tests named with it run on a copy
of the working tree, and must fail. A mutant that survives shows a gap in the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fuzz.random_mutants import ROOT, copied, first_failure

CORE_TESTS = ("tests/core",)
LAWS = ("tests/test_laws.py",)
STOP_LAWS = ("tests/test_stop_laws.py",)
PATTERN_LAWS = ("tests/core/patterns", "tests/test_stop_laws.py", "tests/test_stop_patterns.py")
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
    return Mutant(law, f"streamdec/core/{module}.py", old, new, tests)


MUTANTS = (
    _core(
        "0: a snapshot forgets the ids since the clean point",
        "snapshots",
        '"since": [*decoder._since],',
        '"since": [],',
    ),
    _core(
        "0: a snapshot forgets that stops are off",
        "snapshots",
        "place = [decoder._table.dump(row.state), state.seen.section, state.section, [*context]]",
        "place = [decoder._table.dump(row.state), 0, state.section, [*context]]",
        STOP_LAWS,
    ),
    _core(
        "0: a stream does not move to the next state",
        "step",
        "self._moved, self._row = count, row",
        "self._moved = count",
    ),
    _core(
        "0: several ids at once are not looked at, though they may begin a stop",
        "step",
        "if not mask & alert and after < 0:",
        "if mask < MOVES and after < 0:",
        (*CORE_TESTS, *STOP_LAWS),
    ),
    _core(
        "1: unfinished characters are output",
        "utf8",
        "text, used = utf_8_decode(data, errors, False)",
        "text, used = utf_8_decode(data, errors, True)",
    ),
    _core(
        "1: a finished run of bytes is held longer than need be",
        "rules/byte_fallback",
        "return self.flush(state) + element, None",
        'return self.flush(state), (((None, 65), 1, b""))',
    ),
    _core(
        "1: one letter too few is jailed",
        "stop_set",
        "            kept = matcher.jailed(seen)\n",
        "            kept = max(matcher.jailed(seen) - 1, 0)\n",
        STOP_LAWS,
    ),
    _core(
        "1: one letter too many is jailed",
        "stop_set",
        "            kept = matcher.jailed(seen)\n",
        "            kept = min(matcher.jailed(seen) + 1, len(decided))\n",
        STOP_LAWS,
    ),
    _core(
        "1: a token is not looked at though its letters may begin a stop",
        "stop_set",
        'letters = mask_of("".join(first_letters))',
        'letters = mask_of("".join(sorted(first_letters)[1:]))',
        STOP_LAWS,
    ),
    _core(
        "2: a surrogate's second byte does not decide",
        "utf8",
        "rest[0] == 0xED and rest[1] > 0x9F",
        "rest[0] == 0xED and rest[1] > 0xBF",
    ),
    _core(
        "3: the end gives no U+FFFD for what is unfinished",
        "byte_table",
        "return text + utf8.flush(rest, self.rule.errors)",
        'return text + rest.decode(errors="ignore")',
    ),
    _core(
        "3: the end does not match the text that it releases",
        "examining",
        "stops.read(state, text, ignore=ignore, release=True)",
        "stops.read(state, text, ignore=True, release=True)",
        STOP_LAWS,
    ),
    _core(
        "3: what was jailed is lost at the end",
        "examining",
        "if state.is_settled and not text:",
        "if not text:",
        STOP_LAWS,
    ),
    _core(
        "4: the prompt is forgotten",
        "decoder",
        "table.row(table.prime(prompt)) if prompt else table.start_row",
        "table.start_row",
    ),
    _core(
        "4: of a prompt only the last byte counts",
        "rules/base",
        "if len(tail) >= 3:",
        "if len(tail) >= 1:",
        (*CORE_TESTS, *LAWS),
    ),
    _core(
        "5: the leading space is taken off every token",
        "rules/byte_fallback",
        "metaspace_forms(self._rule, data.decode())[came == self.MORE]",
        "metaspace_forms(self._rule, data.decode())[False]",
    ),
    _core(
        "6: one U+FFFD too few for a broken run",
        "rules/byte_fallback",
        "return REPLACEMENT_BYTES * (len(run) + 1), BROKEN",
        "return REPLACEMENT_BYTES * len(run), BROKEN",
    ),
    _core(
        "6: a clean-up forgets what it held",
        "replacers",
        "*before, last = (tail + text).split(rule.pattern)",
        "*before, last = text.split(rule.pattern)",
    ),
    _core(
        "7: an added token of other letters has no text",
        "rules/base",
        "    except UnicodeEncodeError:\n        return piece.encode()",
        '    except UnicodeEncodeError:\n        return b""',
    ),
    _core(
        "8: a skipped special token breaks off a character",
        "byte_table",
        'if element is None:  # a skipped token\n            return "", state',
        'if element is None:  # a skipped token\n            return "", self.idle',
    ),
    _core(
        "8: a stop that is a skipped special is looked for as text only",
        "stop_sets",
        "found: dict[str, tuple[int, ...]] = find(texts)",
        "found: dict[str, tuple[int, ...]] = {}",
        (*STOP_LAWS, *CORE_TESTS),
    ),
    _core(
        "9: the shortest of the stops that are complete together counts",
        "strings",
        "sorted({*map(len, self._stops)}, reverse=True)",
        "sorted({*map(len, self._stops)})",
        STOP_LAWS,
    ),
    _core(
        "9: a stop may begin within one that was given up",
        "strings",
        "                    return suffix\n        return",
        "                    return suffix\n                break\n        return",
        STOP_LAWS,
    ),
    _core(
        "9: a match may be longer than max_match_length",
        "patterns/compile",
        "(1 << max(most + 1 - left, 0)) - 1",
        "(1 << max(most + 2 - left, 0)) - 1",
        PATTERN_LAWS,
    ),
    _core(
        "9: the shortest match of a pattern counts",
        "patterns/automaton",
        "max(matched.bit_length() - 1, 0)",
        "max((matched & -matched).bit_length() - 1, 0)",
        PATTERN_LAWS,
    ),
    _core(
        "9: what cannot become a match is jailed",
        "patterns/automaton",
        "        for number, ages in reads:\n            if number >= first:\n",
        "        alive |= max(paths.values())\n        for number, ages in reads:\n"
        "            if number >= first:\n",
        PATTERN_LAWS,
    ),
    _core(
        r"9: \b holds at the end of the text",
        "patterns/automaton",
        "elif after is None:",
        "elif after is None and before & value[0] == 0:",
        PATTERN_LAWS,
    ),
    _core(
        "9: a loop is not gone through again",
        "patterns/automaton",
        "later.append(each)",
        "continue",
        PATTERN_LAWS,
    ),
    _core(
        "9: a look-behind begins only with a match",
        "patterns/automaton",
        "self._step(state, ~key, self._looks)",
        "self._step(state, ~key, ())",
        PATTERN_LAWS,
    ),
    _core(
        "10: text before a stop in its token is lost",
        "stop_set",
        "size = len(state.jailed) + hit.end - hit.hidden",
        "size = len(state.jailed) + hit.end if hit.visible else 0",
        STOP_LAWS,
    ),
    _core(
        "10: a hidden stop is shown",
        "stop_set",
        "size = len(state.jailed) + hit.end - hit.hidden",
        "size = len(state.jailed) + hit.end",
        STOP_LAWS,
    ),
    _core(
        "11: the last of the first min_tokens tokens may complete a stop",
        "examining",
        "is_early = index < stops.conditions.min_tokens",
        "is_early = index < stops.conditions.min_tokens - 1",
        STOP_LAWS,
    ),
    _core(
        "11: a token more than max_tokens",
        "decoder",
        "self._stops.conditions.max_tokens or MOST_COUNTED",
        "(self._stops.conditions.max_tokens or MOST_COUNTED - 1) + 1",
        STOP_LAWS,
    ),
    _core(
        "12: stops are found where they are off",
        "sections",
        "return not (self._gated and seen.section)",
        "return True",
        STOP_LAWS,
    ),
    _core(
        "12: ^ does not hold where a section closed",
        "patterns/matcher",
        "if not self._sees_place:",
        "if True:",
        PATTERN_LAWS,
    ),
    _core(
        "12: a look-behind does not see the text of a section",
        "sections",
        "            tail = self.stops.skip(tail, text)\n",
        "            pass\n",
        (*PATTERN_LAWS, *SECTION_LAWS),
    ),
    _core(
        "13: a lone surrogate is a stop",
        "conditions",
        "            text.encode()\n        except UnicodeEncodeError",
        "            pass\n        except UnicodeEncodeError",
        ("tests/core/test_stop_conditions.py",),
    ),
    _core(
        "14: a stream with stops goes on after its end",
        "examining",
        "stream._row, stream._alert = ENDED, ALERT",
        "stream._alert = ALERT",
        STOP_LAWS,
    ),
    _core(
        "14: a stream goes on after its end",
        "examining",
        "    stream._check_running()\n    text, row",
        "    text, row",
    ),
    _core(
        "15: rows are never emptied",
        "table",
        "if self._num_stored > MAX_TRANSITIONS:",
        "if self._num_stored > 10**9:",
        ("tests/core/test_table.py",),
    ),
    _core(
        "15: stop sets are never dropped",
        "stop_sets",
        "(len(self._sets) > MAX_SETS or self._size > MAX_SETS_SIZE)",
        "len(self._sets) > 10**9",
        (*CORE_TESTS, "tests/metrics"),
    ),
    _core(
        "15: each alternative that matches nothing is followed",
        "patterns/compile",
        "ways = dict.fromkeys(",
        "ways = list(",
        ("tests/core/patterns", "tests/test_security_bounds.py"),
    ),
    _core(
        "16: the text before a bad id is lost",
        "step",
        "error.chunk, error.num_taken = joined(NOTHING, *chunks), len(chunks)",
        "error.chunk, error.num_taken = NOTHING, len(chunks)",
    ),
    _core(
        "16: a bool is an id",
        "token_ids",
        "    if is_bool(token_id):\n        raise",
        "    if not token_id and is_bool(token_id):\n        raise",
    ),
    _core(
        "16: a bool in a list is an id",
        "step",
        "if type(token_id) is int:",
        "if isinstance(token_id, int):",
    ),
    _core(
        "16: a token that could not be taken is counted",
        "examining",
        "        step.row.table.flush(step.row.state)\n",
        "        pass\n",
        ("tests/core/test_stop_sequence_decoder.py",),
    ),
    _core(
        "17: the token that completes a character does not cover it",
        "replay",
        "for token in cell.tokens:",
        "for token in cell.tokens[:1]:",
    ),
    _core(
        "18: a stop may have a part before a release",
        "sections",
        "return Seen(self.stops.restart(seen.tail), seen.section)",
        "return seen",
        SECTION_LAWS,
    ),
    _core(
        "18: a release loses the unfinished character",
        "byte_table",
        "text = self.replacers.flush(tails, self.final(pending + data))",
        "text = self.replacers.flush(tails, self.final(data))",
        SECTION_LAWS,
    ),
    _core(
        "19: text before a marker is in the section that the marker begins",
        "sections",
        "self._add(self._all_names[section], section, size)",
        "self._add(self._all_names[self.seen.section], section, size)",
        SECTION_LAWS,
    ),
    _core(
        "19: text before a marker id is in the section that the id begins",
        "examining",
        "is_careful = bool(text or stream._row.waits or row.waits or state.jailed)",
        "is_careful = False",
        SECTION_LAWS,
    ),
    _core(
        "positions: bytes are counted as code points",
        "counting",
        "return count_of(0, len(text), num_bytes)",
        "return len(text)",
        STOP_LAWS,
    ),
    _core(
        "positions: a token too many comes before the stop",
        "examining",
        "max(cells[start].first, 0)",
        "max(cells[start].first + 1, 0)",
        STOP_LAWS,
    ),
    Mutant(
        "async: the source is asked once more after the end",
        "streamdec/streams/text_stream.py",
        "                reading.finish(chunk)\n                break\n",
        "                reading.finish(chunk)\n                await anext(source, None)\n"
        "                break\n",
        ("tests/streams",),
    ),
)


class Outcome(NamedTuple):
    """The outcome of a mutant."""

    mutant: Mutant
    failed: str
    """The first failed test; empty if all passed. Ends with ``(exit N)`` if no test could run."""
    seconds: float

    @property
    def is_caught(self) -> bool:
        """Return whether a test failed."""
        return bool(self.failed) and "(exit " not in self.failed


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
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(ROOT, Path(folder))
        changed(mutant, tree)
        runs = (first_failure(tree, tests, None) for tests in mutant.tests)
        return Outcome(mutant, next(filter(None, runs), ""), time.monotonic() - began)


def report(outcomes: Iterable[Outcome]) -> int:
    """Print a line for each outcome. Return the number of survivors."""
    survivors = 0
    for outcome in outcomes:
        survivors += not outcome.is_caught
        word = "caught " if outcome.is_caught else "SURVIVED"
        print(f"{word} {outcome.seconds:5.0f} s  {outcome.mutant.law}  ({outcome.failed})")
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
