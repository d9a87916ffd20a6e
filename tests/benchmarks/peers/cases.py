"""The cases of the peers, with the same ids and stops for all of them, in turns.

A ratio is the time of a peer as a multiple of streamdec's. The figure of a peer has a remark if its
text is not that of ``Tokenizer.decode``. Slow peers get fewer tokens, which the name of the figure
says. That is no disadvantage: most peers take longer as the text grows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from streamdec.bench.clock import fresh, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import OURS, Entrant, fixed_window, text_of
from tests.benchmarks import stops
from tests.benchmarks.common import Case, Effort, warm
from tests.benchmarks.entrants import stopping
from tests.benchmarks.memory import bytes_per_stream
from tests.benchmarks.peers.hf import HfStops, HfStreamer
from tests.benchmarks.peers.kit import COMMAND, Kit, PeerMissingError
from tests.benchmarks.peers.mlx_lm import MlxNaive, MlxOwn
from tests.benchmarks.peers.peer import Peer
from tests.benchmarks.peers.sglang import Sglang, SglangBatch
from tests.benchmarks.peers.vllm import VllmFast, VllmSlow
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject
from tests.benchmarks.withheld import Count, withheld_by

__all__ = ["MAKERS", "PEER_CASES", "usual_stops"]

Maker: TypeAlias = Callable[[Kit, Subject, Sequence[str]], Peer]

MAKERS: Sequence[Maker] = (
    VllmFast,
    VllmSlow,
    SglangBatch,
    Sglang,
    MlxOwn,
    MlxNaive,
    HfStreamer,
)
STOPPERS: Sequence[Maker] = (VllmFast, VllmSlow, Sglang)
SEED = 25
COUNTS = (4, 64, 1_000)
STOP_TOKENS = {4: 4_096, 64: 1_024, 1_000: 256}
"""The most tokens of a peer's stream, by the number of stops."""
CRITERIA_TOKENS = 64


def _kit(subject: Subject, report: Report) -> Kit | None:
    """Return the folder of the peers. If there is none, add a note that says how to get it."""
    if subject.kit is None:
        report.note(f"no peers: {COMMAND} FOLDER fetches them, --peers FOLDER runs them")
        return None
    report.versions |= subject.kit.versions
    return subject.kit


def _made(
    kit: Kit, subject: Subject, report: Report, makers: Sequence[Any], drawn: Sequence[str] = ()
) -> dict[Any, Peer]:
    """Return the peers of ``makers`` that accept this tokenizer and these stops."""
    made: dict[Any, Peer] = {}
    for maker in makers:
        try:
            made[maker] = maker(kit, subject, drawn)
        except PeerMissingError as error:
            report.note(f"{subject.name}: without {maker.__name__}: {error}")
    return made


def usual_stops(subject: Subject, token_ids: Sequence[int], kind: str, count: int) -> list[str]:
    """Return ``count`` stops of a kind. None is complete in the text of ``token_ids``."""
    draw = stops.role_markers if kind == stops.ORDINARY else stops.KINDS[kind]
    return draw(count, subject.expected(token_ids), random.Random(SEED))


def _time(peer: Peer, pieces: Sequence[Sequence[int]]) -> float:
    return per_token(peer, pieces) / peer.streams


def _remark(subject: Subject, entrant: Entrant, token_ids: Sequence[int]) -> str:
    """Return how the text of a peer differs, or an empty string."""
    text, expected = text_of(entrant, fresh(token_ids)), subject.expected(token_ids)
    if text == expected:
        return ""
    if not text:
        return "it has no text"
    same = next((i for i, (a, b) in enumerate(zip(text, expected, strict=False)) if a != b), None)
    end = min(len(text), len(expected)) if same is None else same
    return f"another text than decode's from character {end}"


# --- the step -------------------------------------------------------------------------------------


def step(subject: Subject, effort: Effort, report: Report) -> None:
    """A token without stops, with warm caches, beside streamdec."""
    if (kit := _kit(subject, report)) is None:
        return
    made = _made(kit, subject, report, MAKERS)
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        warm(subject, [token_ids], report, f"peers, {workload}")
        streams = [token_ids] * effort.step_streams
        users: list[Entrant] = [subject.rival, subject.ours]
        ours = {user.name: partial(per_token, user, streams) for user in users}
        peers = {peer: _piece(subject, workload, effort, peer.tokens) for peer in made.values()}
        _race(subject, report, f"peers, {workload}", ours, peers, effort.peer_rounds)


def _piece(subject: Subject, workload: str, effort: Effort, size: int) -> list[int]:
    return subject.pieces(workload, min(size, effort.step_size))[0]


def _race(
    subject: Subject,
    report: Report,
    case: str,
    ours: Mapping[str, Callable[[], float]],
    peers: Mapping[Peer, Sequence[int]],
    rounds: int,
) -> None:
    """Add the time of each peer, its ratio to the last of ``ours``, and a remark on its text."""
    # This comes first, so that what a peer builds at its first token is not timed.
    remarks = {peer: _remark(subject, peer, piece) for peer, piece in peers.items()}
    cases = {peer.name: partial(_time, peer, [piece]) for peer, piece in peers.items()}
    samples = in_turns({**ours, **cases}, rounds)
    add = partial(report.add, subject.name, case)
    *_, last = ours
    for peer, piece in peers.items():
        ratio, remark = samples.ratio(peer.name, last), remarks[peer]
        add(f"{peer.name} / {last}", ratio, "x", remark=remark)
        name = f"{peer.name}, {len(piece):,} tokens"
        add(name, samples.time(peer.name), "ns", remark=remark)
    for name in ours:
        add(name, samples.time(name), "ns")


def with_stops(subject: Subject, effort: Effort, report: Report) -> None:
    """A token with 4, 64 and 1,000 stops, none of which is ever complete."""
    if (kit := _kit(subject, report)) is None:
        return
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        for kind in stops.KINDS:
            for count in COUNTS:
                drawn = usual_stops(subject, token_ids, kind, count)
                name = f"{OURS}, {count:,} {kind} stops"
                ours = stopping(name, subject.tokenizer, drawn)
                warm(subject, [token_ids], report, f"peers, {workload}, {name}", ours)
                timed = {name: partial(per_token, ours, [token_ids] * effort.step_streams)}
                made = _made(kit, subject, report, STOPPERS, drawn)
                peers = {}
                for peer in made.values():
                    size = min(peer.tokens, STOP_TOKENS[count])
                    peers[peer] = _piece(subject, workload, effort, size)
                case = f"peers with {count:,} {kind} stops, {workload}"
                _race(subject, report, case, timed, peers, effort.peer_rounds)


def criteria(subject: Subject, effort: Effort, report: Report) -> None:
    """The ``StopStringCriteria`` of transformers, which decodes nothing: its tables and a call."""
    if (kit := _kit(subject, report)) is None:
        return
    token_ids = subject.pieces("code", CRITERIA_TOKENS)[0]
    drawn = usual_stops(subject, token_ids, stops.ORDINARY, 4)
    made: list[HfStops] = []
    try:
        build = nanoseconds(lambda: made.append(HfStops(kit, subject, drawn)))
    except PeerMissingError as error:
        report.note(f"{subject.name}: without {HfStops.name}: {error}")
        return
    ours = stopping(f"{OURS}, 4 {stops.ORDINARY} stops", subject.tokenizer, drawn)
    warm(subject, [token_ids], report, "criteria", ours)
    cases = {user.name: partial(per_token, user, [token_ids] * 4) for user in (ours, made[0])}
    samples = in_turns(cases, effort.peer_rounds)
    add = partial(report.add, subject.name, f"peers with 4 {stops.ORDINARY} stops, a check alone")
    add(f"{HfStops.name} / {ours.name}", samples.ratio(HfStops.name, ours.name), "x")
    add(HfStops.name, samples.time(HfStops.name), "ns")
    add(f"{HfStops.name}, tables", build * 1e-6, "ms")


# --- length ---------------------------------------------------------------------------------------


def growth(subject: Subject, effort: Effort, report: Report) -> None:
    """The same ids as short streams and as one long stream."""
    if (kit := _kit(subject, report)) is None:
        return
    shortest, longest = effort.growth_sizes[0], effort.growth_sizes[-1]
    cut = {size: subject.pieces("code", size) for size in effort.growth_sizes}
    for peer in _made(kit, subject, report, [m for m in MAKERS if m is not SglangBatch]).values():
        cases = {str(size): partial(_time, peer, cut[size]) for size in cut}
        samples = in_turns(cases, effort.peer_growth_rounds)
        add = partial(report.add, subject.name, "peers, growth, code")
        ratio = samples.ratio(str(longest), str(shortest))
        add(f"{peer.name}, {longest:,} / {shortest:,} tokens", ratio, "x")
        for size in cut:
            add(f"{peer.name}, {size:,} tokens", samples.time(str(size)), "ns")


def lone(subject: Subject, effort: Effort, report: Report) -> None:
    """Thousands of continuation bytes without a lead byte."""
    kit, token_id = _kit(subject, report), subject.lone_byte
    if kit is None or token_id is None:
        return
    peers = _made(kit, subject, report, [m for m in MAKERS if m is not SglangBatch])
    for size in effort.peer_lone_sizes:
        run = [token_id] * size
        warm(subject, [run], report, f"peers, lone, {size:,} tokens")
        ours = {subject.rival.name: partial(per_token, subject.rival, [run])}
        streams = [run] * effort.step_streams
        ours[OURS] = partial(per_token, subject.ours, streams)
        parts = dict.fromkeys(peers.values(), run)
        case = f"peers, lone bytes, {size:,} tokens"
        _race(subject, report, case, ours, parts, 1 if size > 1_024 else 3)


# --- memory and withheld text ---------------------------------------------------------------------


def memory(subject: Subject, effort: Effort, report: Report) -> None:
    """What Python allocates for one more stream, with 4 stops if the peer matches stops."""
    if (kit := _kit(subject, report)) is None:
        return
    for size in effort.peer_memory_sizes:
        token_ids = subject.pieces("code", size)[0]
        drawn = usual_stops(subject, token_ids, stops.ORDINARY, 4)
        usual = stopping(f"{OURS}, 4 stops", subject.tokenizer, drawn)
        users: list[Entrant] = [usual, subject.ours, subject.rival]
        for user in users[:2]:
            warm(subject, [token_ids], report, f"peers, memory, {user.name}", user)
        for user in users:
            used = bytes_per_stream(user, token_ids, effort.live_streams)
            what = f"{user.name}, {size:,} tokens"
            report.add(subject.name, "peers, memory, code", what, used, "B")
        others = [m for m in MAKERS if m not in (*STOPPERS, SglangBatch)]
        peers = {
            **_made(kit, subject, report, STOPPERS, drawn),
            **_made(kit, subject, report, others),
        }
        for maker, peer in peers.items():
            used = bytes_per_stream(peer, token_ids, effort.peer_streams)
            what = f"{peer.name}{', 4 stops' if maker in STOPPERS else ''}, {size:,} tokens"
            report.add(subject.name, "peers, memory, code", what, used, "B")


def withheld(subject: Subject, effort: Effort, report: Report) -> None:
    """How many of the characters that streamdec decoded are not output after a token."""
    if (kit := _kit(subject, report)) is None:
        return
    for workload in subject.texts:
        token_ids = _piece(subject, workload, effort, Sglang.tokens)
        for kind in stops.KINDS:
            drawn = usual_stops(subject, token_ids, kind, 4)
            add = partial(report.add, subject.name, f"peers, withheld, 4 {kind} stops, {workload}")
            stream = stopping(OURS, subject.tokenizer, drawn).open()
            given = [stream.step(token_id).text for token_id in fresh(token_ids)]
            add(OURS, _kept(subject, token_ids, given), "chars")
            add("a fixed window", float(fixed_window(drawn)), "chars")
            for peer in _made(kit, subject, report, STOPPERS, drawn).values():
                given = [*peer.texts(fresh(token_ids))]
                add(peer.name, _kept(subject, token_ids, given), "chars")
        case = f"peers, withheld, no stops, {workload}"
        others = [maker for maker in MAKERS if maker not in STOPPERS]
        for peer in _made(kit, subject, report, others).values():
            given = [*peer.texts(fresh(token_ids))]
            report.add(subject.name, case, peer.name, _kept(subject, token_ids, given), "chars")


def _kept(subject: Subject, token_ids: Sequence[int], texts: Sequence[str]) -> float:
    """Return the mean over all tokens but the last, after which nothing is withheld."""
    decoded = [*map(subject.ours.open().step, token_ids)]
    waits = withheld_by(decoded[:-1], texts[:-1])
    return Count.of([each.characters for each in waits]).mean


# --- beginnings -----------------------------------------------------------------------------------


def load(subject: Subject, effort: Effort, report: Report) -> None:
    """Loading transformers' tokenizer, and building the tables of mlx-lm."""
    if (kit := _kit(subject, report)) is None:
        return
    add = partial(report.add, subject.name, "peers, load")
    try:
        kit.tokenizer(subject.path)
    except PeerMissingError as error:
        report.note(f"{subject.name}: {error}")
        return
    cases = {"load": partial(nanoseconds, partial(kit.load_tokenizer, subject.path))}
    time = in_turns(cases, effort.loads).time("load").times(1e-6)
    add("transformers, the tokenizer", time, "ms")
    for peer in _made(kit, subject, report, [MlxOwn]).values():
        cases = {peer.name: partial(nanoseconds, partial(MlxOwn, kit, subject))}
        time = in_turns(cases, effort.loads).time(peer.name).times(1e-6)
        add(f"{peer.name}, tables", time, "ms")


PEER_CASES: Mapping[str, Case] = {
    "peers": step,
    "peers-stops": with_stops,
    "peers-growth": growth,
    "peers-lone": lone,
    "peers-withheld": withheld,
    "peers-memory": memory,
    "peers-load": load,
    "peers-criteria": criteria,
}
"""The cases by the names that the command takes."""
