"""The cases of stops: what they cost, and how much they withhold.

Beside streamdec without stops, and beside the library's ``DecodeStream``, which matches none. No
stop is ever complete, so that each text is that of the full decode.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle, islice, zip_longest
from time import thread_time_ns
from typing import Any, Generic, NamedTuple, TypeVar

from streamdec import HuggingFaceTokenizer, StopConditions, StopSequenceDecoder
from streamdec.bench.clock import fresh, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import HF, OURS, Entrant, Ours, Stopping, fixed_window
from tests.benchmarks import stops, texts
from tests.benchmarks.common import (
    BYTES_PER_STREAM,
    FLAT,
    SEED,
    Case,
    Effort,
    compare,
    long_streams,
    race,
    role_markers,
    warm,
)
from tests.benchmarks.entrants import NO_STOPS, ColdStops, Sectioned, stopping
from tests.benchmarks.memory import bytes_per_stream, traced
from tests.benchmarks.report import Report
from tests.benchmarks.stops import HARD, ORDINARY
from tests.benchmarks.subjects import Subject

__all__ = ["STOP_CASES"]

E = TypeVar("E", bound=Entrant)

COUNTS = (4, 64, 1_000)
WITHOUT = f"{OURS} without"
STEP_BOUND = 0.4
"""The most of the library's time that a warm token may take with ordinary stops."""
COLD_BOUND = 0.8
"""The most of the library's time with four ordinary new stops."""
UNSEEN_STOPS = ((ORDINARY, 0), (ORDINARY, 4), (HARD, 4), (ORDINARY, 64), (HARD, 64))
CHARACTERS_PER_TOKEN = 5
"""More than code has."""
SETS_AT_ONCE = 16
"""Sets of stops whose making is timed together."""
COMPILE_BOUND_MS = 3.0
WITHHELD_BOUNDS = {("code", ORDINARY, 4): 0.2}
"""The most characters that are withheld after a token, on average."""
SETS_BEFORE_COLD = 64
"""How many other sets of stops come first, as on a server."""
HOSTILE_STOPS = 16
HOSTILE_SIZE = 64
"""Tokens of a stream whose stops are never used again."""
HOSTILE_MB = 32.0
"""The most that the caches of all stops of a tokenizer may hold. They keep 4,096 sets."""
HOSTILE_KB_ALIVE = 64.0
NEIGHBOURS_PER_ROUND = 100
NEIGHBOUR_BOUND = 1.75
"""The most of the time without stops that a stream may take among streams with new stops."""
TURNS_SIZE = 128
"""Tokens of each stream that takes turns with others."""
TENANT_TOKENS = 256


# --- time -----------------------------------------------------------------------------------------


class StopSet(NamedTuple, Generic[E]):
    """Some stops, and the contestant that matches them."""

    kind: str
    number: int
    entrant: E


def step(subject: Subject, effort: Effort, report: Report) -> None:
    """A warm step with 0, 4, 64 and 1,000 stops, beside one without and beside the library."""
    for workload in subject.texts:
        where = f"step with stops, {workload}"
        token_ids = subject.pieces(workload, effort.step_size)[0]
        none = StopSet(ORDINARY, 0, stopping("0 stops", subject.tokenizer, ()))
        sets: list[StopSet[Stopping]] = [none, *_warm_sets(subject, token_ids)]
        warm(subject, [token_ids], report, where)
        for each in sets:
            warm(subject, [token_ids], report, f"{where}, {each.entrant.name}", each.entrant)
        entrants: list[Entrant] = [subject.ours, subject.rival]
        entrants += [each.entrant for each in sets]
        samples = race(entrants, [token_ids] * effort.step_streams, effort.rounds)
        add = partial(report.add, subject.name, where)
        for kind, _, entrant in sets:
            bound, flat = (STEP_BOUND, FLAT) if kind == ORDINARY else (None, None)
            add(f"{entrant.name} / {NO_STOPS}", samples.ratio(entrant.name, HF), "x", bound=bound)
            add(f"{entrant.name} / {WITHOUT}", samples.ratio(entrant.name, OURS), "x", bound=flat)
            add(entrant.name, samples.time(entrant.name), "ns")
        most, least = _name(ORDINARY, max(COUNTS)), _name(ORDINARY, min(COUNTS))
        add(f"{most} / {least}", samples.ratio(most, least), "x", bound=FLAT)
        add(WITHOUT, samples.time(OURS), "ns")
        add(NO_STOPS, samples.time(HF), "ns")


def _warm_sets(subject: Subject, token_ids: Sequence[int]) -> Iterator[StopSet[Stopping]]:
    """The usual markers of roles and more of them, and near misses of the text."""
    text = subject.expected(token_ids)
    for kind, draw in {**stops.KINDS, ORDINARY: stops.role_markers}.items():
        for count in COUNTS:
            drawn = draw(count, text, random.Random(SEED))
            yield StopSet(kind, count, stopping(_name(kind, count), subject.tokenizer, drawn))


def _name(kind: str, count: int) -> str:
    return f"{count:,} {kind} stops"


def sections(subject: Subject, effort: Effort, report: Report) -> None:
    """A warm step with sections, beside one without sections and stops."""
    for workload in subject.texts:
        where = f"sections, {workload}"
        token_ids = subject.pieces(workload, effort.step_size)[0]
        entrants = [Sectioned(subject.tokenizer, is_inside=each) for each in (False, True)]
        for each in entrants:
            warm(subject, [token_ids], report, f"{where}, {each.name}", each)
        racing: list[Entrant] = [subject.ours, *entrants]
        samples = race(racing, [token_ids] * effort.step_streams, effort.rounds)
        for each in entrants:
            ratio = samples.ratio(each.name, OURS)
            report.add(subject.name, where, f"{each.name} / {WITHOUT}", ratio, "x")
            report.add(subject.name, where, each.name, samples.time(each.name), "ns")


def cold(subject: Subject, effort: Effort, report: Report) -> None:
    """New stops for each stream, from the list of strings to the last token. The text is known."""
    size = effort.cold_size
    for workload in subject.texts:
        piece = subject.pieces(workload, size)[0]
        add = partial(report.add, subject.name, f"cold stops, {workload}, {size:,} tokens")
        for kind, count, entrant in _cold_sets(subject, piece, effort):
            for _ in range(SETS_BEFORE_COLD):
                entrant.drive(entrant.open(), fresh(piece))
            compare(subject, entrant, piece, report, f"cold stops, {workload}, {entrant.name}")
            samples = race([entrant, subject.rival], [piece] * effort.step_streams, effort.rounds)
            is_usual = (workload, kind, count) == ("code", ORDINARY, 4)
            bound = COLD_BOUND if is_usual else None
            add(f"{entrant.name} / {NO_STOPS}", samples.ratio(entrant.name, HF), "x", bound=bound)
            add(entrant.name, samples.time(entrant.name), "ns")


def _cold_sets(
    subject: Subject, token_ids: Sequence[int], effort: Effort
) -> Iterator[StopSet[ColdStops]]:
    """Sets that are new each time."""
    text = subject.expected(token_ids)
    for kind, draw in stops.KINDS.items():
        for count in effort.cold_hard_stops if kind == HARD else COUNTS:
            drawn = partial(draw, count, text, random.Random(SEED))
            yield StopSet(kind, count, ColdStops(_name(kind, count), subject.tokenizer, drawn))


def unseen(subject: Subject, effort: Effort, report: Report) -> None:
    """Text that the tokenizer never decoded, after much other text. No part is timed twice."""
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
        # A new tokenizer object, which has decoded nothing.
        tokenizer = HuggingFaceTokenizer(subject.library)
        entrant = stopping(_name(kind, count), tokenizer, drawn)
        for piece in pieces[:known]:
            entrant.drive(entrant.open(), fresh(piece))
        users: list[Entrant] = [entrant, subject.rival]
        cases = {user.name: partial(_per_token_of_next, user, iter(windows)) for user in users}
        samples = in_turns(cases, len(windows))
        for window in windows:
            compare(subject, entrant, window, report, f"unseen, {entrant.name}")
        add(f"{entrant.name} / {NO_STOPS}", samples.ratio(entrant.name, HF), "x")
        add(entrant.name, samples.time(entrant.name), "ns")


def _per_token_of_next(entrant: Entrant, windows: Iterator[Sequence[int]]) -> float:
    return per_token(entrant, [next(windows)])


def compile_stops(subject: Subject, effort: Effort, report: Report) -> None:
    """From a list of strings to a stream that is ready, and to ``StopConditions`` only.

    The strings are new each time. Several sets are timed together.
    """
    token_ids = subject.pieces("code", effort.cold_size)[0]
    for _, count, entrant in _cold_sets(subject, token_ids, effort):
        compare(subject, entrant, token_ids, report, f"compile, {entrant.name}")
        for _ in range(SETS_BEFORE_COLD):
            entrant.begin(entrant.open())
        conditions = f"{entrant.name}, conditions only"
        makes: dict[str, Callable[[list[str]], object]] = {
            entrant.name: entrant.begin,
            conditions: StopConditions,
        }
        cases = {name: partial(_compile, entrant, make) for name, make in makes.items()}
        samples = in_turns(cases, effort.rounds)
        add = partial(report.add, subject.name, "compile stops")
        bound = COMPILE_BOUND_MS if count == max(COUNTS) else None
        add(entrant.name, samples.time(entrant.name).times(1e-6), "ms", bound=bound)
        add(conditions, samples.time(conditions).times(1e-6), "ms")


def _compile(entrant: ColdStops, make: Callable[[list[str]], object]) -> float:
    sets = iter([entrant.open() for _ in range(SETS_AT_ONCE)])
    return nanoseconds(lambda: make(next(sets)), SETS_AT_ONCE)


def shared(subject: Subject, effort: Effort, report: Report) -> None:
    """Streams with the same stops that take turns token by token, as in an engine's batch."""
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
        add(f"{entrant.name} / {WITHOUT}", samples.ratio("turns", "turns without"), "x")
        ratio = samples.ratio("turns", "queue")
        what = f"{entrant.name}, in turns / one stream after another"
        add(what, ratio, "x", bound=NEIGHBOUR_BOUND)
        add(f"{entrant.name}, in turns", samples.time("turns"), "ns")


def _per_token_of_all(
    entrant: Ours | Stopping, pieces: Sequence[Sequence[int]], *, by_turns: bool
) -> float:
    """Return the time of a token of streams that take turns, or that run one after another."""
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
    found = ["" for _ in pieces]
    for turn in zip_longest(*pieces):
        for i, token_id in enumerate(turn):
            if token_id is not None:
                found[i] += streams[i].step(token_id).text
    for stream, text, piece in zip(streams, found, pieces, strict=True):
        whole = text + stream.flush().text
        report.compare(f"{subject.name}, {where}", whole, subject.expected(piece))


def tenants(subject: Subject, effort: Effort, report: Report) -> None:
    """Requests of many tenants, each with its own four stops, beside requests of one.

    A request is 256 tokens from anywhere in the code. Opening a stream is not counted.
    """
    token_ids = subject.pieces("code", effort.step_size)[0]
    warm(subject, [token_ids], report, "tenants")
    draw, usual = random.Random(SEED), role_markers(subject, token_ids, 3)
    sets = [StopConditions([*usual, f"\n<tenant {n}>"]) for n in range(effort.tenants)]
    places = draw.choices(range(len(token_ids) - TENANT_TOKENS + 1), k=len(sets))
    pieces = [token_ids[place : place + TENANT_TOKENS] for place in places]

    def serve(conditions: Sequence[StopConditions]) -> float:
        users = [Stopping(subject.tokenizer, each) for each in conditions]
        jobs = [(user.open(), fresh(ids)) for user, ids in zip(users, pieces, strict=True)]
        start = thread_time_ns()
        for user, (stream, ids) in zip(users, jobs, strict=True):
            user.drive(stream, ids)
        return (thread_time_ns() - start) / (TENANT_TOKENS * len(jobs))

    for conditions, piece in zip(sets, pieces, strict=True):  # which also fills the caches
        compare(subject, Stopping(subject.tokenizer, conditions), piece, report, "tenants")
    cases = {"many": partial(serve, sets), "one": partial(serve, sets[:1] * len(sets))}
    samples = in_turns(cases, max(effort.rounds // 3, 1))
    what = f"{len(sets):,} tenants"
    ratio = samples.ratio("many", "one")
    report.add(subject.name, "tenants", f"{what} / one", ratio, "x", bound=NEIGHBOUR_BOUND)
    report.add(subject.name, "tenants", what, samples.time("many"), "ns")


# --- what is withheld -----------------------------------------------------------------------------


def withheld(subject: Subject, effort: Effort, report: Report) -> None:
    """How much is withheld. It must be the longest end of the text that may begin a stop.

    That end is searched for in the text of a stream without stops. One character more or less is
    reported as a wrong text.
    """
    for workload in subject.texts:
        case = f"withheld, {workload}"
        token_ids = subject.pieces(workload, effort.step_size)[0]
        for kind, count, entrant in _warm_sets(subject, token_ids):
            where = f"{subject.name}, {case}, {entrant.name}"
            for _ in range(2):  # with empty and with filled caches
                sizes = _withheld_sizes(subject, entrant, token_ids, report, where)
            window = fixed_window([*entrant.conditions.stop])
            what = f"{entrant.name}, a step (a fixed window: {window})"
            bound = WITHHELD_BOUNDS.get((workload, kind, count))
            report.add(subject.name, case, what, sum(sizes) / len(sizes), "chars", bound=bound)


def _withheld_sizes(
    subject: Subject, entrant: Stopping, token_ids: Sequence[int], report: Report, where: str
) -> list[int]:
    """Return how many characters each step withholds, up to the first step that is wrong."""
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
    """Return the longest end of ``text`` that is one of ``prefixes``."""
    ends = (text[-size:] for size in range(min(longest, len(text)), 0, -1))
    return next((end for end in ends if end in prefixes), "")


# --- memory ---------------------------------------------------------------------------------------


def memory(subject: Subject, effort: Effort, report: Report) -> None:
    """What Python allocates for one more stream with stops, and for one more set of four.

    A set is weighed after a stream of known text, without the stream.
    """
    for size in effort.memory_sizes:
        for name, token_ids in long_streams(subject, size).items():
            _, _, usual = next(_warm_sets(subject, token_ids))
            case = f"memory with stops, {name}"
            warm(subject, [token_ids], report, f"{case}, {usual.name}", usual)
            used = bytes_per_stream(usual, token_ids, effort.live_streams)
            what = f"{usual.name}, {size:,} tokens"
            report.add(subject.name, case, what, used, "B", bound=BYTES_PER_STREAM)
    token_ids = subject.pieces("code", effort.cold_size)[0]
    for kind, draw in stops.KINDS.items():
        # A new tokenizer object, of which no set is dropped to make room.
        tokenizer = HuggingFaceTokenizer(subject.library)
        drawn = partial(draw, min(COUNTS), subject.expected(token_ids), random.Random(SEED))
        entrant = ColdStops(_name(kind, min(COUNTS)), tokenizer, drawn)
        warm(subject, [token_ids], report, f"memory of a set, {kind}", entrant)
        once = partial(_drive_new, entrant, fresh(token_ids))
        used = traced(partial(_times, once, effort.live_streams), once).kept / effort.live_streams
        what = f"{entrant.name}, after {effort.cold_size:,} tokens"
        report.add(subject.name, "memory of a set", what, used, "B")


def _drive_new(entrant: ColdStops, ids: list[int]) -> None:
    entrant.drive(entrant.open(), ids)


def _times(action: Callable[[], object], count: int) -> None:
    for _ in range(count):
        action()


def hostile(subject: Subject, effort: Effort, report: Report) -> None:
    """Thousands of sets, each for one stream: the memory that stays, and the cost for others."""
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

    once = partial(_drive_new, entrant, ids)

    def all_alive() -> None:
        for i in range(effort.live_sets):
            stream = streams[i] = entrant.begin(entrant.open())
            for token_id in ids:
                stream.step(token_id)

    left = traced(partial(_times, once, effort.hostile_sets), once)
    what = f"{effort.hostile_sets:,} sets, left behind"
    add(what, left.kept / 2**20, "MB", bound=HOSTILE_MB)
    add(f"{effort.hostile_sets:,} sets, at the most", left.peak / 2**20, "MB")
    alive = traced(all_alive, once).kept / effort.live_sets / 2**10
    add(f"{effort.live_sets:,} streams alive, each", alive, "kB", bound=HOSTILE_KB_ALIVE)


def _race_neighbours(
    subject: Subject,
    entrant: ColdStops,
    ids: list[int],
    effort: Effort,
    report: Report,
    case: str,
) -> None:
    """Compare a warm stream with usual stops with one without, both among hostile streams."""
    token_ids = subject.pieces("code", effort.step_size)[0]
    _, _, usual = next(_warm_sets(subject, token_ids))
    pieces = [token_ids] * effort.step_streams

    def beside(user: Entrant) -> float:
        _times(partial(_drive_new, entrant, ids), NEIGHBOURS_PER_ROUND)
        return per_token(user, pieces)

    users: list[Entrant] = [subject.ours, usual]
    for user in users:
        warm(subject, [token_ids], report, case, user)
    samples = in_turns({user.name: partial(beside, user) for user in users}, effort.rounds)
    compare(subject, usual, token_ids, report, case)
    what = f"{usual.name} / {WITHOUT}"
    report.add(
        subject.name, case, what, samples.ratio(usual.name, OURS), "x", bound=NEIGHBOUR_BOUND
    )


STOP_CASES: Mapping[str, Case] = {
    "stops": step,
    "sections": sections,
    "stops-cold": cold,
    "stops-unseen": unseen,
    "stops-compile": compile_stops,
    "stops-shared": shared,
    "tenants": tenants,
    "stops-withheld": withheld,
    "stops-memory": memory,
    "stops-hostile": hostile,
}
"""The cases by the names that the command takes."""
