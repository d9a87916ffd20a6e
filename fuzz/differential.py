"""``python -m fuzz.differential``: compare random streams with the library's own decode.

``tests/test_laws.py`` checks short streams in every detail. This target checks the text of many
long streams: ids of several kinds, prompts, cuts, snapshots and stops. The text must equal the
tokenizer's own ``decode`` of all ids. With stops it must equal the part before the first stop.
``--record`` adds the counts of several runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import count, cycle, pairwise
from pathlib import Path
from typing import Any

from benchmarks import texts
from streamdec import DecodeStream, StopConditions, StopSequenceDecoder, load_tokenizer
from streamdec.errors import StreamdecError
from streamdec.protocols import ByteFallback
from tests import reference
from tests.strategies import Subject
from tests.support.files import shared_files
from tests.support.zoo import ZOO
from tests.test_laws import FORMATS, MOCKS, SHARED, subject_named

LONGEST = 4_096
"""The most ids of one stream."""
TURN = 5.0
"""Seconds for a tokenizer before the next one follows."""
POOL = 2_000
"""The number of ids from which the streams of one turn are drawn."""
STOPPED = 0.15
"""The share of streams that are also tested with stops."""
CORPUS = 400_000
"""Characters of real text, half source code, half a mix of scripts."""


# --- the input of a stream ------------------------------------------------------------------------


@dataclass
class Source:
    """A tokenizer, and its ids of every kind."""

    subject: Subject
    pool: Sequence[int] = ()
    """The ids of this turn: few, so that they repeat, and different in each turn."""

    @cached_property
    def size(self) -> int:
        """The approximate number of ids."""
        vocab_size = getattr(self.subject.tokenizer, "vocab_size", None)
        return vocab_size if isinstance(vocab_size, int) else max(self.subject.usual) + 1

    @cached_property
    def text(self) -> list[int]:
        """The ids of real text; empty if the tokenizer does not encode."""
        encode = getattr(self.subject.tokenizer, "encode", None)
        half = CORPUS // 2
        try:
            found = (
                [encode(part) for part in (texts.code(half), texts.mix(half, 1))] if encode else []
            )
        except (StreamdecError, ValueError):
            return []
        return [int(token_id) for each in found for token_id in getattr(each, "ids", each)]

    @cached_property
    def temperaments(self) -> dict[str, Callable[[random.Random, int], list[int]]]:
        """The ways to draw ids, by name."""
        subject = self.subject
        found = {
            "uniform": self._uniform,
            "partial characters": _of(subject.partial),
            "specials": _mixed(subject.special, self._uniform),
            "repeated": self._repeated,
            "text": self._cut_text,
            "unknown": _mixed(subject.unknown, self._uniform),
        }
        if not self.text:
            del found["text"]
        if not subject.unknown:
            del found["unknown"]
        return found

    def _uniform(self, draw: random.Random, size: int) -> list[int]:
        return draw.choices(self.pool, k=size)

    def _repeated(self, draw: random.Random, size: int) -> list[int]:
        few = draw.choices([*self.subject.usual, *self.subject.partial], k=draw.randint(1, 6))
        return draw.choices(few, k=size)

    def _cut_text(self, draw: random.Random, size: int) -> list[int]:
        ids: list[int] = []
        while len(ids) < size:
            place = draw.randrange(len(self.text))
            ids += self.text[place : place + draw.randint(1, 400)]
        return ids[:size]


def _of(ids: Sequence[int]) -> Callable[[random.Random, int], list[int]]:
    return lambda draw, size: draw.choices(ids, k=size)


def _mixed(
    some: Sequence[int], others: Callable[[random.Random, int], list[int]]
) -> Callable[[random.Random, int], list[int]]:
    """Return ids of which about every third is one of ``some``."""

    def drawn(draw: random.Random, size: int) -> list[int]:
        ids = others(draw, size)
        for place in range(size):
            if draw.random() < 0.3:
                ids[place] = draw.choice(some)
        return ids

    return drawn


@dataclass(frozen=True)
class Case:
    """One stream."""

    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    cuts: tuple[int, ...]
    """Return the places that divide ``ids`` into calls. The middle one has a snapshot."""
    skip_special_tokens: bool
    stops: tuple[str, ...] = ()


def drawn(source: Source, draw: random.Random) -> Case:
    """Return a stream of a random kind and size."""
    ids = draw.choice([*source.temperaments.values()])(draw, int(2 ** draw.uniform(0, 12.001)))
    prompted = min(draw.choice([0, 0, 1, 3, 12]), len(ids))
    rest = len(ids) - prompted
    cuts = sorted(draw.choices(range(rest + 1), k=draw.choice([0, 1, 3])))
    return Case((*ids[:prompted],), (*ids[prompted:],), (*cuts,), draw.random() < 0.7)


def with_stops(source: Source, case: Case, draw: random.Random) -> Case:
    """Return the case without a prompt, with stops that are in its text or nearly so."""
    text = _whole(source.subject, case.ids, skip=case.skip_special_tokens)
    stops = {draw.choice(["</s>", "\nUser:", "\ufffd", "  "])}
    for _ in range(draw.randint(0, 5)):
        place = draw.randrange(len(text)) if text else 0
        piece = text[place : place + draw.randint(1, 9)]
        stops.add(piece + draw.choice(["", "\u2603", "a"]))
    # A stop that is the text of a skipped special token also stops at its id, without text.
    ordinary = sorted(stop for stop in stops if stop and not _is_special(source.subject, stop))
    return Case((), case.ids, case.cuts, case.skip_special_tokens, (*ordinary,))


def _is_special(subject: Subject, text: str) -> bool:
    token_to_id = getattr(subject.tokenizer, "token_to_id", None)
    token_id = token_to_id(text) if token_to_id else None
    return token_id is not None and subject.tokenizer.is_skipped(token_id)


# --- the checks -----------------------------------------------------------------------------------


def problem(subject: Subject, case: Case) -> str:
    """Return the mismatch of ``case``; "" if there is none."""
    try:
        return _stop_problem(subject, case) if case.stops else _text_problem(subject, case)
    except StreamdecError as error:
        return f"{type(error).__name__}: {error}"


def _whole(subject: Subject, ids: Sequence[int], *, skip: bool) -> str:
    return subject.tokenizer.decode(list(ids), skip_special_tokens=skip)


def _options(subject: Subject, case: Case) -> dict[str, Any]:
    """Return the options with which a stream must equal the library's text for any ids."""
    rules = subject.tokenizer.rules
    runs = rules is not None and isinstance(rules.rule, ByteFallback)
    exact = {"byte_fallback": "exact"} if runs else {}
    return {"skip_special_tokens": case.skip_special_tokens, **exact}


def _parts(case: Case) -> Iterator[tuple[Sequence[int], bool]]:
    """Yield the ids of each call, and whether a snapshot is restored before it."""
    bounds = [0, *case.cuts, len(case.ids)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        yield case.ids[start:end], number == len(bounds) // 2


def _text_problem(subject: Subject, case: Case) -> str:
    """Check law 6; with a prompt law 4: its text and the stream equal the full decode."""
    options = _options(subject, case)
    stream, text = DecodeStream(subject.streamed, case.prompt, **options), ""
    for part, is_moved in _parts(case):
        if is_moved:
            snapshot = json.loads(json.dumps(stream.snapshot()))
            stream = DecodeStream.restore(subject.streamed, snapshot)
        text += stream.feed(part)
    text += stream.flush()
    whole = _whole(subject, [*case.prompt, *case.ids], skip=case.skip_special_tokens)
    decided = _decided(subject, case, options)
    if decided is None or any(each + text == whole for each in decided):
        return ""
    return _difference(decided[0] + text, whole)


def _decided(subject: Subject, case: Case, options: dict[str, Any]) -> list[str] | None:
    """Return the possible texts of the prompt.

    The complete characters of a run of byte tokens belong to the prompt, or U+FFFD for each of
    their bytes if a generated token makes the run invalid. They may be stripped. None if the rules
    replace text: no replacement crosses the end of such a run, so the text may differ.
    """
    begun = DecodeStream(subject.streamed, **options)
    text = begun.feed(case.prompt)
    rules = subject.tokenizer.rules
    if "byte_fallback" not in options or rules is None:
        return [text]
    run = begun.held.removesuffix(reference.unfinished(begun.held))
    if run and rules.replaces:
        return None
    texts = [text + run.decode(errors="replace"), text + reference.REPLACEMENT * len(run)]
    if not text:
        stripped, most = rules.strip_left
        texts += [
            texts[0].removeprefix(stripped * count)
            for count in range(1, min(most, len(texts[0])) + 1)
            if texts[0].startswith(stripped * count)
        ]
    return texts


def _stop_problem(subject: Subject, case: Case) -> str:
    """Check laws 1, 9 and 10: the text before the first complete stop, and the jailed text."""
    whole = _whole(subject, case.ids, skip=case.skip_special_tokens)
    found = [
        (place + len(stop), -len(stop)) for stop in case.stops if (place := whole.find(stop)) >= 0
    ]
    end, size = min(found, default=(len(whole), 0))
    options = _options(subject, case)
    stream = StopSequenceDecoder(subject.streamed, StopConditions(case.stops), **options)
    beside = DecodeStream(subject.streamed, **options)
    text = decided = ""
    for part, is_moved in _parts(case):
        if is_moved:
            snapshot = json.loads(json.dumps(stream.snapshot()))
            stream = StopSequenceDecoder.restore(subject.streamed, snapshot)
        text += stream.feed(part).text
        if stream.finished:
            break
        decided += beside.feed(part)
        if text + stream.jailed != decided or stream.jailed != _jailed(decided, case.stops):
            return f"jailed {stream.jailed!r:.80} of {decided[-40:]!r}"
    text += "" if stream.finished else stream.flush().text
    if (stream.match is not None) != bool(found):
        return f"{stream.match} where {'one' if found else 'no'} stop is complete"
    if stream.match is not None and (stream.match.start, stream.match.end) != (end + size, end):
        return f"{stream.match}, expected at {end + size} to {end}"
    return _difference(text, whole[: end + size])


def _jailed(text: str, stops: Sequence[str]) -> str:
    """Return the longest suffix of ``text`` that is a proper prefix of a stop."""
    longest = max(len(stop) for stop in stops) - 1
    ends = (text[start:] for start in range(max(len(text) - longest, 0), len(text)))
    return next((end for end in ends if any(s.startswith(end) and s != end for s in stops)), "")


def _difference(text: str, expected: str) -> str:
    if text == expected:
        return ""
    pairs = zip(text, expected, strict=False)
    place = next(
        (n for n, (one, other) in enumerate(pairs) if one != other),
        len(min(text, expected, key=len)),
    )
    nearby = slice(max(place - 10, 0), place + 20)
    return f"at {place} of {len(expected)}: {text[nearby]!r}, expected {expected[nearby]!r}"


def smallest(subject: Subject, case: Case) -> Case:
    """Return the smallest part found of ``case`` that still has a mismatch."""
    for name in ("prompt", "cuts", "stops", "ids"):
        size = len(getattr(case, name))
        while size:
            place = 0
            while place < len(getattr(case, name)):
                values = getattr(case, name)
                less = (*values[:place], *values[place + size :])
                cuts = tuple(min(cut, len(case.ids)) for cut in case.cuts)
                smaller = Case(**{**asdict(case), "cuts": cuts, name: less})
                if (name != "stops" or less) and problem(subject, smaller):
                    case = smaller
                else:
                    place += size
            size //= 2
    return case


# --- a run ----------------------------------------------------------------------------------------


@dataclass
class Tally:
    """The counts of one tokenizer."""

    streams: int = 0
    tokens: int = 0
    stopped_streams: int = 0
    stopped_tokens: int = 0
    mismatches: int = 0
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Return the sum of both."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Run:
    """Run turns of tokenizers until the time is over or there is a mismatch."""

    sources: dict[str, Source]
    seed: int
    tallies: dict[str, Tally] = field(default_factory=dict)

    def go(self, seconds: float) -> str:
        """Return a report of the first mismatch; "" if there was none."""
        until = time.monotonic() + seconds
        for number, name in zip(count(self.seed), cycle(self.sources), strict=False):
            left = until - time.monotonic()
            if left <= 0:
                return ""
            found = self._turn(name, number, min(TURN, left))
            if found:
                return found
        raise AssertionError("numbers do not end")

    def _turn(self, name: str, number: int, seconds: float) -> str:
        source, draw = self.sources[name], random.Random(number)
        source.pool = draw.sample(range(source.size), min(source.size, POOL))
        tally = self.tallies.setdefault(name, Tally())
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            case = drawn(source, draw)
            tally.streams += 1
            tally.tokens += len(case.prompt) + len(case.ids)
            wrong = problem(source.subject, case)
            if not wrong and draw.random() < STOPPED:
                case = with_stops(source, case, draw)
                tally.stopped_streams += 1
                tally.stopped_tokens += len(case.ids)
                wrong = problem(source.subject, case)
            if wrong:
                tally.mismatches += 1
                case = smallest(source.subject, case)
                wrong = problem(source.subject, case)
                return f"{name}, seed {number}: {wrong}\n{case}"
        tally.seconds += time.monotonic() - began
        return ""


def names_of(*, real: bool) -> list[str]:
    """Return the tokenizers of the tests; with ``real``, only the files of ``../shared``."""
    files = [path.parent.name for path in shared_files()]
    return [*files, *SHARED] if real else [*MOCKS, *ZOO, *FORMATS, *SHARED]


def table(tallies: dict[str, Tally]) -> str:
    """Return the counts in Markdown."""
    total = Tally()
    lines = [
        "| tokenizer | streams | tokens | with stops | tokens with stops | mismatches |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, tally in sorted(tallies.items()):
        lines.append(_line(name, tally))
        total.add(tally)
    return "\n".join([*lines, _line(f"**{len(tallies)} tokenizers**", total)])


def _line(name: str, tally: Tally) -> str:
    numbers = (tally.streams, tally.tokens, tally.stopped_streams, tally.stopped_tokens)
    return f"| {name} | {' | '.join(f'{n:,}' for n in (*numbers, tally.mismatches))} |"


def record(path: Path, tallies: dict[str, Tally]) -> dict[str, Tally]:
    """Add ``tallies`` to the counts in the file, and return the sums."""
    known = json.loads(path.read_text()) if path.exists() else {}
    sums = {name: Tally(**values) for name, values in known.items()}
    for name, tally in tallies.items():
        sums.setdefault(name, Tally()).add(tally)
    path.write_text(json.dumps({name: asdict(tally) for name, tally in sums.items()}, indent=1))
    return sums


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.differential", description=__doc__)
    parser.add_argument("--hours", type=float, default=1 / 6, help="how long (default: 10 minutes)")
    parser.add_argument("--only", action="append", default=[], help="a part of a tokenizer's name")
    parser.add_argument("--real", action="store_true", help="only the files of ../shared")
    parser.add_argument("--tokenizer", action="append", default=[], help="a path, instead of all")
    parser.add_argument("--seed", type=int, help="the seed of the first turn, to replay a finding")
    parser.add_argument("--record", type=Path, help="a JSON file to which the counts are added")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.tokenizer:
        subjects = {path: Subject(path, load_tokenizer(path)) for path in options.tokenizer}
    else:
        names = names_of(real=options.real)
        names = [name for name in names if all(part in name for part in options.only)]
        subjects = {name: subject_named(name) for name in names}
    if not subjects:
        parser.error(f"no tokenizer has {options.only} in its name")
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    run = Run({name: Source(subject) for name, subject in subjects.items()}, seed)
    found = run.go(options.hours * 3600)
    sums = record(options.record, run.tallies) if options.record else run.tallies
    print(table(sums))
    if found:
        print(f"\n{found}")
        return 1
    tokens, seconds = (sum(getattr(t, n) for t in sums.values()) for n in ("tokens", "seconds"))
    print(f"\n{tokens / max(seconds, 1e-9):,.0f} tokens a second")
    return 0


if __name__ == "__main__":
    logging.getLogger("streamdec").setLevel(logging.ERROR)
    sys.exit(main())
