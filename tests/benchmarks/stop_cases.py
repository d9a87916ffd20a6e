"""The cases of the stop engine: what stops cost, and what they withhold.

Beside streamdec without stops, and beside the library's ``DecodeStream``, which matches none. None
of the stops is ever complete, so every text is that of the whole decode.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle, islice, zip_longest
from time import thread_time_ns
from typing import Any, Generic, NamedTuple, TypeVar

from streamdec import HuggingFaceTokenizer, StopSequenceDecoder
from streamdec.bench.clock import fresh, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import fixed_window
from streamdec.bench.memory import bytes_per_stream, traced
from tests.benchmarks import stops, texts
from tests.benchmarks.common import (
    BYTES_PER_STREAM,
    FLAT,
    Case,
    Effort,
    compare,
    long_streams,
    race,
    warm,
)
from tests.benchmarks.entrants import HF, OURS, ColdStops, Entrant, Ours, Stopping
from tests.benchmarks.report import Report
from tests.benchmarks.stops import HARD, ORDINARY
from tests.benchmarks.subjects import Subject

__all__ = ["STOP_CASES"]

E = TypeVar("E", bound=Entrant)

COUNTS = (4, 64, 1_000)
LIMITED = "limited"
MOST_TOKENS = 1_000_000
SEED = 25
STEP_FLOORS = {OURS: FLAT, HF: 0.15}
"""Beside whom, for ordinary stops."""
COLD_FLOORS = {("code", ORDINARY, 4): 0.8}
COLD_GOALS = {("code", ORDINARY, 4): 0.7, ("code", HARD, 4): 1.1}
UNSEEN_STOPS = ((ORDINARY, 0), (ORDINARY, 4), (HARD, 4), (ORDINARY, 64), (HARD, 64))
UNSEEN_GOALS = {(ORDINARY, 4): 0.3}
CHARACTERS_PER_TOKEN = 5
"""More than code has."""
COMPILE_FLOORS_MS = {1_000: 3.0}
COMPILE_GOALS_MS = {4: 0.2}
WITHHELD_FLOORS = {("code", ORDINARY, 4): 0.2}
"""Characters a step."""
SETS_BEFORE_COLD = 64
"""So many other sets of stops come first, as on a server."""
HOSTILE_STOPS = 16
HOSTILE_SIZE = 64
"""Tokens of a stream whose stops are never used again."""
HOSTILE_MB = 32.0
"""As much as the caches of all stops together may hold."""
HOSTILE_KB_ALIVE = 64.0
NEIGHBOURS_PER_ROUND = 100
NEIGHBOUR_FLOOR = 1.75
"""Beside a stream without stops."""
TURNS_SIZE = 128
"""Tokens of each stream that takes turns with others."""


# --- time -----------------------------------------------------------------------------------------


class StopSet(NamedTuple, Generic[E]):
    """Some stops, and who matches them."""

    kind: str
    number: int
    entrant: E


def step(subject: Subject, effort: Effort, report: Report) -> None:
    """A warm step with 0, 4, 64 and 1,000 stops, beside the one without."""
    for workload in subject.texts:
        where = f"step with stops, {workload}"
        token_ids = subject.pieces(workload, effort.step_size)[0]
        usual, *more = _warm_sets(subject, token_ids)
        sets = [_no_stops(subject), usual, _limited(usual), *more]
        warm(subject, [token_ids], report, where)
        for each in sets:
            warm(subject, [token_ids], report, f"{where}, {each.entrant.name}", each.entrant)
        others = [subject.ours, *subject.rivals]
        entrants = [*others, *(each.entrant for each in sets)]
        samples = race(entrants, [token_ids] * effort.step_streams, effort.rounds)
        add = partial(report.add, subject.name, where)
        for kind, count, entrant in sets:
            for other in others:
                ratio = samples.ratio(entrant.name, other.name)
                bounds = _step_bounds(kind, count, other)
                add(f"{entrant.name} / {_without(other)}", ratio, "x", **bounds)
            add(entrant.name, samples.time(entrant.name), "ns")
        for other in others:
            add(_without(other), samples.time(other.name), "ns")


def _no_stops(subject: Subject) -> StopSet[Stopping]:
    return StopSet(ORDINARY, 0, Stopping("0 stops", subject.tokenizer, ()))


def _limited(usual: StopSet[Stopping]) -> StopSet[Stopping]:
    """The same with a limit that is not reached, as nearly every request has one."""
    entrant, name = usual.entrant, f"{usual.entrant.name} and max_tokens"
    limited = Stopping(name, entrant.tokenizer, entrant.conditions.stop, max_tokens=MOST_TOKENS)
    return StopSet(LIMITED, usual.number, limited)


def _warm_sets(subject: Subject, token_ids: Sequence[int]) -> Iterator[StopSet[Stopping]]:
    """Everyone's role markers, and text that nearly comes again; and more of each."""
    text = subject.expected(token_ids)
    for kind, draw in {**stops.KINDS, ORDINARY: stops.role_markers}.items():
        for count in COUNTS:
            drawn = draw(count, text, random.Random(SEED))
            yield StopSet(kind, count, Stopping(_name(kind, count), subject.tokenizer, drawn))


def _name(kind: str, count: int) -> str:
    return f"{count:,} {kind} stops"


def _without(other: Entrant) -> str:
    """A contestant without stops, so that nobody takes it for one that has them."""
    return f"{other.name} (matches no stops)" if other.name == HF else f"{other.name} without"


def _step_bounds(kind: str, count: int, other: Entrant) -> dict[str, float | None]:
    bound = STEP_FLOORS.get(other.name) if count or other.name == OURS else None
    if kind == ORDINARY:
        return {"floor": bound}
    return {"goal": bound} if other.name == OURS else {}


def cold(subject: Subject, effort: Effort, report: Report) -> None:
    """Stops that come with one stream, from their check to its last token; the tokens are known."""
    size = effort.cold_stop_size
    for workload in subject.texts:
        piece = subject.pieces(workload, size)[0]
        pieces = [piece] * effort.step_streams
        add = partial(report.add, subject.name, f"cold stops, {workload}, {size:,} tokens")
        for kind, count, entrant in _cold_sets(subject, piece, effort):
            for _ in range(SETS_BEFORE_COLD):
                entrant.drive(entrant.open(), fresh(piece))
            compare(subject, entrant, piece, report, f"cold stops, {workload}, {entrant.name}")
            samples = race([entrant, *subject.rivals], pieces, effort.rounds)
            for rival in subject.rivals:
                bounds: dict[str, float | None] = {}
                if rival.name == HF:
                    key = workload, kind, count
                    bounds = {"floor": COLD_FLOORS.get(key), "goal": COLD_GOALS.get(key)}
                ratio = samples.ratio(entrant.name, rival.name)
                add(f"{entrant.name} / {_without(rival)}", ratio, "x", **bounds)
            add(entrant.name, samples.time(entrant.name), "ns")


def _cold_sets(
    subject: Subject, token_ids: Sequence[int], effort: Effort
) -> Iterator[StopSet[ColdStops]]:
    """Sets that are others each time."""
    text = subject.expected(token_ids)
    for kind, draw in stops.KINDS.items():
        for count in effort.cold_hard_stops if kind == HARD else COUNTS:
            drawn = partial(draw, count, text, random.Random(SEED))
            yield StopSet(kind, count, ColdStops(_name(kind, count), subject.tokenizer, drawn))


def unseen(subject: Subject, effort: Effort, report: Report) -> None:
    """Text that never came before, after much that did: no window of it is timed twice."""
    size = effort.step_size
    most = effort.unseen_after + effort.rounds * size
    text = texts.code(CHARACTERS_PER_TOKEN * most)
    token_ids = [*subject.tokenizer.encode(text).ids]
    pieces = [token_ids[start : start + size] for start in range(0, len(token_ids) - size, size)]
    known = effort.unseen_after // size
    windows = pieces[known : known + effort.rounds]
    add = partial(report.add, subject.name, f"unseen code after {known * size:,} tokens")
    for kind, count in UNSEEN_STOPS:
        draw = stops.role_markers if kind == ORDINARY else stops.KINDS[kind]
        drawn = draw(count, text, random.Random(SEED))
        # A tokenizer object of its own, of which nothing is known.
        tokenizer = HuggingFaceTokenizer(subject.library)
        entrant = Stopping(_name(kind, count), tokenizer, drawn)
        for piece in pieces[:known]:
            entrant.drive(entrant.open(), fresh(piece))
        cases = {
            user.name: partial(_per_token_of_next, user, iter(windows))
            for user in (entrant, *subject.rivals)
        }
        samples = in_turns(cases, len(windows))
        for window in windows:
            compare(subject, entrant, window, report, f"unseen, {entrant.name}")
        for rival in subject.rivals:
            ratio = samples.ratio(entrant.name, rival.name)
            goal = UNSEEN_GOALS.get((kind, count))
            add(f"{entrant.name} / {_without(rival)}", ratio, "x", goal=goal)
        add(entrant.name, samples.time(entrant.name), "ns")


def _per_token_of_next(entrant: Entrant, windows: Iterator[Sequence[int]]) -> float:
    return per_token(entrant, [next(windows)])


def compile_stops(subject: Subject, effort: Effort, report: Report) -> None:
    """From a list of strings to a stream that is ready: new ones each time."""
    token_ids = subject.pieces("code", effort.cold_stop_size)[0]
    for _, count, entrant in _cold_sets(subject, token_ids, effort):
        compare(subject, entrant, token_ids, report, f"compile, {entrant.name}")
        for _ in range(SETS_BEFORE_COLD):
            entrant.begin(entrant.open())
        samples = in_turns({entrant.name: partial(_compile_once, entrant)}, effort.rounds)
        bounds = {"floor": COMPILE_FLOORS_MS.get(count), "goal": COMPILE_GOALS_MS.get(count)}
        time = samples.time(entrant.name).times(1e-6)
        report.add(subject.name, "compile stops", entrant.name, time, "ms", **bounds)


def _compile_once(entrant: ColdStops) -> float:
    return nanoseconds(partial(entrant.begin, entrant.open()))


def shared(subject: Subject, effort: Effort, report: Report) -> None:
    """Streams of one program that take turns token by token, as in an engine's batch."""
    pieces = subject.pieces("code", TURNS_SIZE)
    _, _, entrant = next(_warm_sets(subject, subject.texts["code"]))
    for user in (subject.ours, entrant):
        warm(subject, pieces, report, f"shared, {user.name}", user)
    for count in effort.interleaved:
        streams = [*islice(cycle(pieces), count)]
        _compare_in_turns(subject, entrant, streams, report, f"shared, {count} streams")
        cases = {
            "turns": partial(_per_token_of_all, entrant, streams, by_turns=True),
            "turns without": partial(_per_token_of_all, subject.ours, streams, by_turns=True),
            "queue": partial(_per_token_of_all, entrant, streams, by_turns=False),
        }
        samples = in_turns(cases, effort.rounds)
        add = partial(report.add, subject.name, f"shared stops, {count} streams")
        ratio = samples.ratio("turns", "turns without")
        add(f"{entrant.name} / {_without(subject.ours)}", ratio, "x", floor=FLAT)
        ratio = samples.ratio("turns", "queue")
        add(f"{entrant.name}, in turns / one stream after another", ratio, "x")
        add(f"{entrant.name}, in turns", samples.time("turns"), "ns")


def _per_token_of_all(
    entrant: Ours | Stopping, pieces: Sequence[Sequence[int]], *, by_turns: bool
) -> float:
    """What one token takes if each piece is a stream: token by token, or one after another."""
    steps: list[Any] = [entrant.open().step for _ in pieces]
    moves = [
        [(one_step, token_id) for token_id in fresh(piece)]
        for one_step, piece in zip(steps, pieces, strict=True)
    ]
    queue = [*chain(*(zip(*moves, strict=False) if by_turns else moves))]
    start = thread_time_ns()
    for one_step, token_id in queue:
        one_step(token_id)
    return (thread_time_ns() - start) / len(queue)


def _compare_in_turns(
    subject: Subject,
    entrant: Stopping,
    pieces: Sequence[Sequence[int]],
    report: Report,
    where: str,
) -> None:
    streams = [entrant.open() for _ in pieces]
    texts = ["" for _ in pieces]
    for turn in zip_longest(*pieces):
        for i, token_id in enumerate(turn):
            if token_id is not None:
                texts[i] += streams[i].step(token_id).text
    for stream, text, piece in zip(streams, texts, pieces, strict=True):
        whole = text + stream.flush().text
        report.compare(f"{subject.name}, {where}", whole, subject.expected(piece))


# --- what is withheld -----------------------------------------------------------------------------


def withheld(subject: Subject, effort: Effort, report: Report) -> None:
    """At each step exactly the longest end of the text that may begin a stop; and how long it is.

    Looked for in the text of a stream without stops, end by end: one character more or less is a
    wrong text.
    """
    for workload in subject.texts:
        case = f"withheld, {workload}"
        token_ids = subject.pieces(workload, effort.step_size)[0]
        for kind, count, entrant in _warm_sets(subject, token_ids):
            where = f"{subject.name}, {case}, {entrant.name}"
            # Once as the rows are made, and once as they are found.
            for _ in range(2):
                sizes = _withheld_sizes(subject, entrant, token_ids, report, where)
            window = fixed_window([*entrant.conditions.stop])
            what = f"{entrant.name}, a step (a fixed window: {window})"
            floor = WITHHELD_FLOORS.get((workload, kind, count))
            report.add(subject.name, case, what, sum(sizes) / len(sizes), "chars", floor=floor)


def _withheld_sizes(
    subject: Subject, entrant: Stopping, token_ids: Sequence[int], report: Report, where: str
) -> list[int]:
    """How many characters each step withholds, as long as they are the right ones."""
    plain, stream = subject.ours.open(), entrant.open()
    decided = given = ""
    sizes: list[int] = []
    prefixes = {stop[:end] for stop in entrant.conditions.stop for end in range(1, len(stop))}
    longest = max(map(len, prefixes), default=0)
    for token_id in fresh(token_ids):
        decided += plain.step(token_id)
        given += stream.step(token_id).text
        expected = _longest_end(decided, prefixes, longest)
        place = f"{where}, token {len(sizes)}"
        sizes.append(len(decided) - len(given))
        for found in (decided[len(given) :], stream.jailed):
            if found != expected:
                report.compare(place, found, expected)
                return sizes
    report.compare(where, given + stream.flush().text, subject.expected(token_ids))
    return sizes


def _longest_end(text: str, prefixes: set[str], longest: int) -> str:
    """The longest end of ``text`` that is one of ``prefixes``."""
    ends = (text[-size:] for size in range(min(longest, len(text)), 0, -1))
    return next((end for end in ends if end in prefixes), "")


# --- memory ---------------------------------------------------------------------------------------


def memory(subject: Subject, effort: Effort, report: Report) -> None:
    """What Python allocates for one more stream with stops, the program being warm."""
    for size in effort.memory_sizes:
        for name, token_ids in long_streams(subject, size).items():
            usual, worst = _memory_sets(subject, token_ids)
            for entrant in (usual, worst) if size == effort.memory_sizes[0] else (usual,):
                case = f"memory with stops, {name}"
                warm(subject, [token_ids], report, f"{case}, {entrant.name}", entrant)
                used = bytes_per_stream(entrant, token_ids, effort.live_streams)
                what = f"{entrant.name}, {size:,} tokens"
                # The worst may hold a stop's beginning that no other stream will ever have.
                bound = "floor" if entrant is usual else "goal"
                report.add(subject.name, case, what, used, "B", **{bound: BYTES_PER_STREAM})


def _memory_sets(subject: Subject, token_ids: Sequence[int]) -> tuple[Stopping, Stopping]:
    """The first and the last: the usual set and the worst."""
    sets = [each.entrant for each in _warm_sets(subject, token_ids)]
    return sets[0], sets[-1]


def hostile(subject: Subject, effort: Effort, report: Report) -> None:
    """Thousands of sets, each for one stream: what they leave behind, and what others feel."""
    token_ids = subject.pieces("code", HOSTILE_SIZE)[0]
    text = subject.expected(token_ids)
    drawn = partial(stops.near_misses, HOSTILE_STOPS, text, random.Random(SEED))
    entrant = ColdStops("hostile", subject.tokenizer, drawn)
    compare(subject, entrant, token_ids, report, "hostile stops")
    add = partial(report.add, subject.name, f"hostile stops, {HOSTILE_STOPS} for one stream")
    _weigh_hostile(entrant, fresh(token_ids), effort, add)
    case = f"hostile stops, {NEIGHBOURS_PER_ROUND} beside"
    _race_neighbours(subject, entrant, fresh(token_ids), effort, report, case)


def _weigh_hostile(entrant: ColdStops, ids: list[int], effort: Effort, add: Any) -> None:
    streams: list[StopSequenceDecoder | None] = [None] * effort.live_sets

    def once() -> None:
        entrant.drive(entrant.open(), ids)

    def one_by_one() -> None:
        for _ in range(effort.hostile_sets):
            once()

    def all_alive() -> None:
        for i in range(effort.live_sets):
            stream = streams[i] = entrant.begin(entrant.open())
            for token_id in ids:
                stream.step(token_id)

    left = traced(one_by_one, once)
    what = f"{effort.hostile_sets:,} sets, left behind"
    add(what, left.kept / 2**20, "MB", floor=HOSTILE_MB)
    add(f"{effort.hostile_sets:,} sets, at the most", left.peak / 2**20, "MB")
    alive = traced(all_alive, once).kept / effort.live_sets / 2**10
    add(f"{effort.live_sets:,} streams alive, each", alive, "kB", floor=HOSTILE_KB_ALIVE)


def _race_neighbours(
    subject: Subject,
    entrant: ColdStops,
    ids: list[int],
    effort: Effort,
    report: Report,
    case: str,
) -> None:
    """Whether a warm stream with stops of its own stays as fast among them."""
    token_ids = subject.pieces("code", effort.step_size)[0]
    usual, _ = _memory_sets(subject, token_ids)
    pieces = [token_ids] * effort.step_streams

    def beside(user: Entrant) -> float:
        for _ in range(NEIGHBOURS_PER_ROUND):
            entrant.drive(entrant.open(), ids)
        return per_token(user, pieces)

    users: list[Entrant] = [subject.ours, usual]
    for user in users:
        warm(subject, [token_ids], report, case, user)
    samples = in_turns({user.name: partial(beside, user) for user in users}, effort.rounds)
    compare(subject, usual, token_ids, report, case)
    ratio = samples.ratio(usual.name, OURS)
    what = f"{usual.name} / {_without(subject.ours)}"
    report.add(subject.name, case, what, ratio, "x", floor=NEIGHBOUR_FLOOR)


STOP_CASES: Mapping[str, Case] = {
    "stops": step,
    "stops-cold": cold,
    "stops-unseen": unseen,
    "stops-compile": compile_stops,
    "stops-shared": shared,
    "stops-withheld": withheld,
    "stops-memory": memory,
    "stops-hostile": hostile,
}
"""By the names that the command knows."""
