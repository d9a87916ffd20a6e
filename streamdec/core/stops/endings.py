r"""How a stream with stops ends: what is output, and where in the text the stop stands.

In: a :class:`Checkpoint`, all that a stream knows at one moment. Out: an :class:`Ending`. Nothing
here changes a stream, so an end that raises (a pattern that takes too long) leaves the stream as it
was. Positions are counts (:mod:`streamdec.core.counting`) of the whole generated text.

**Theory.** At any moment the generated text has three parts: what was output, what is decided but
withheld (``Checkpoint.withheld``), and what the unfinished bytes of the table's state would give if
nothing followed. A stream ends in one of four ways. They differ in which part of this text is still
read, and where it is cut:

* *A stop in the text.* The stops read the letters that a token decides. A hidden stop is cut at its
  start, which may be in what is withheld; a visible one at its end.
* *Nothing follows* (``flush``, a limit, the end of the engine). The unfinished bytes become text.
  The stops read it too, so this may also complete a stop.
* *An id that stops by itself.* All that the tokens before it left is released, as above. The text
  of the id itself is not read. It is output if the stop is visible. Where an earlier token began
  its first character, :class:`~streamdec.core.provenance.Parted` says which part is whose.
* *A sequence of ids.* It is cut before the first byte of its first token, but its first token looks
  like any other until the last one comes. So each token that may begin a sequence is a
  :class:`Candidate`. It keeps the checkpoint before the token, and how much of the text decided
  since then has no byte of the token. That much may be output. The rest is withheld until another
  token shows that there is no sequence. If the sequence is complete, the stream ends as if nothing
  had followed that checkpoint.

**A worked example.** The stop is the sequence of ids 1, 2. Token 1 completes the character that
token 0 began. That character must not be output before it is known whether token 2 follows:

>>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
>>> tokenizer = MockTokenizer.from_tokens([b"caf\xc3", b"\xa9 ", b"au", b"lait"])
>>> conditions = StopConditions(stop_token_sequences=[[1, 2]])
>>> decoder = StopSequenceDecoder(tokenizer, conditions)
>>> decoder.step(0).text, decoder.step(1).text, decoder.pending_text
('caf', '', 'é ')
>>> decoder.fork().step(3).text                     # no sequence: the withheld text is output
'é lait'
>>> decoder.step(2).text, decoder.match.start       # the sequence: token 0 was the last
('\ufffd', 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from os.path import commonprefix
from typing import Any, NamedTuple

from streamdec.chunks import StopReason
from streamdec.core import provenance
from streamdec.core.counting import (
    code_points_in,
    size_of,
    tokens_in,
)
from streamdec.core.provenance import Ages
from streamdec.core.spans import Recorder
from streamdec.core.stops.marks import origin_of
from streamdec.core.stops.stop_set import Matching, Read, StopSet
from streamdec.core.table import Table
from streamdec.errors import RewriteError

__all__ = [
    "Candidate",
    "Checkpoint",
    "Ending",
    "at_release",
    "by_id",
    "by_sequence",
    "find",
    "followed",
    "origin_of_end",
]


class Checkpoint(NamedTuple):
    """All that a stream with stops knows at one moment."""

    state: Any
    """Of the table."""
    matching: Matching
    withheld: str
    """Decided text that is not output: what is jailed, and more while a sequence may begin."""
    marks: tuple[int, ...]
    """For each token of the jailed text: the count after its letters, its tokens included."""
    shield: int
    """Code points that began in this token or an earlier one cannot be part of a stop."""
    count: int  # type: ignore[assignment]
    """Of the tokens so far, and of the text that they decided."""


class Candidate(NamedTuple):
    """A token that may belong to a stop sequence, and the stream before it.

    The fields from ``num_followed`` on are known of the first candidate alone: see ``followed``.
    """

    token_id: int
    before: Checkpoint
    offsets: tuple[int, int] = (0, 0)
    """The stream's before it."""
    recorder: Recorder | None = None
    """A checkpoint of what the stream had recorded before it. Forks share it: it is not changed."""
    text: str = ""
    """The text that the token decided."""
    num_followed: int = 0
    """How many tokens, from this one on, the fields below take into account."""
    since: str = ""
    """The text that these tokens decided."""
    before_it: int = 0
    """How many of its first code points have no byte of the token or a later one."""
    spared: int = 0
    """How many of those may be output now: the earlier tokens alone would have given them."""
    origin: int | None = None
    """The token that began the first of the others."""

    @property
    def place(self) -> int:
        """The index of the token."""
        return tokens_in(self.before.count)

    @property
    def limit(self) -> int:
        """The code point before which the text has no byte of the token or a later one."""
        return code_points_in(self.before.count) + self.spared


class Ending(NamedTuple):
    """An end of a stream, by a stop or because nothing follows."""

    text: str
    """The text to output, of all that was not output before."""
    stop: StopReason = None
    visible: bool = False
    """Whether the text of the stop is output."""
    start: int = -1
    """The count of the text before the stop; -1 if no stop ended the stream."""
    end: int = 0
    """The count up to its end."""
    origin: int = 0
    """The index of the token that gave its first byte."""


# --- finding a stop -------------------------------------------------------------------------------


def find(
    stops: StopSet, at: Checkpoint, text: str, firsts: Ages, *, ignore: bool = False
) -> tuple[Read, Ending | None]:
    """Read ``text``, decided at ``at``, whose code points began so many tokens ago (``firsts``).

    Returns what it did, its text including what was withheld; and the stop that it completed.
    """
    index = tokens_in(at.count)
    skip = sum(index - age <= at.shield for age in firsts)
    read = stops.read(at.matching, text, skip=skip, ignore=ignore)
    more = len(at.withheld) - len(at.matching.jailed)  # withheld for a sequence of ids
    if more:
        read = read._replace(text=at.withheld[:more] + read.text)
    hit = read.hit
    if hit is None:
        return read, None
    decided = _text_count(at.count)
    end = decided + size_of(text[: read.end])
    start = end - size_of(hit.text)
    place = read.end - hit.size
    marked = origin_of(at.marks, code_points_in(start)) if place < 0 else 0
    origin = marked if place < 0 else index - firsts[place]
    return read, Ending(read.text, hit.stop, hit.visible, start, end, origin)


def origin_of_end(at: Checkpoint, text: str) -> int:
    """Return the index of the token that began ``text``, the end of what is decided at ``at``."""
    return origin_of(at.marks, code_points_in(at.count) - len(text))


def _text_count(count: int) -> int:
    """``count`` without its tokens."""
    return count - tokens_in(count)


def followed(candidates: Sequence[Candidate], table: Table) -> Candidate:
    """Return the first of ``candidates``, tokens in a row, with the text of all of them followed.

    It keeps what it knows: while it stays the first, each token is followed once.
    """
    first = candidates[0]
    for each in candidates[first.num_followed :]:
        first = _advanced(first, table, each.before, each.token_id, each.text)
    return first._replace(num_followed=len(candidates))


def _advanced(
    candidate: Candidate, table: Table, at: Checkpoint, token_id: int, text: str
) -> Candidate:
    """``candidate`` after ``token_id``, which decides ``text`` at ``at``."""
    if not text:
        return candidate
    index, since = tokens_in(at.count), candidate.since + text
    known = table.letters_before(at.state, token_id, index - candidate.place)
    firsts = table.firsts(at.state, token_id, text)
    alone: str | None = None
    if known is None or table.waits(candidate.before.state):
        # An earlier token whose bytes are held may give different text once this token follows.
        alone = ""
        with suppress(RewriteError):
            alone = table.flush(candidate.before.state)
    common = len(since)
    if alone is not None:
        common = len(commonprefix([alone, since]))  # noqa: RUF071 (letters, not paths)
    size = candidate.before_it
    if known is None:
        size = max(size, common)
    elif size == len(candidate.since):
        size += known
    origin = candidate.origin
    if origin is None and size < len(since):
        origin = index - firsts[size - len(candidate.since)]
    spared = max(candidate.spared, min(size, common))
    return candidate._replace(since=since, before_it=size, spared=spared, origin=origin)


# --- the ends -------------------------------------------------------------------------------------


def at_release(stops: StopSet, table: Table, at: Checkpoint, *, ignore: bool) -> Ending:
    """Return the end because nothing follows. What comes out may complete a stop."""
    text, found = _released(stops, table, at, ignore=ignore)
    return found or Ending(text)


def by_id(
    stops: StopSet,
    table: Table,
    at: Checkpoint,
    token_id: int,
    reason: StopReason,
    *,
    hidden: bool,
) -> Ending:
    """Return the end by a stop id or end-of-sequence id, before whose text the rest is released."""
    index = tokens_in(at.count)
    if hidden and stops.hides:
        text, found = _released(stops, table, at)
        if found is not None:
            return found
        end = _end_of(at, text)
        return Ending(text, reason, False, end, end, index)
    text, found, parted = _parted(stops, table, at, token_id)
    if found is not None:
        return found
    start = _end_of(at, text)
    text += parted.own
    return Ending(
        text, reason, True, start, start + size_of(parted.own), tokens_in(at.count) - parted.age
    )


def by_sequence(
    stops: StopSet,
    table: Table,
    at: Checkpoint,
    sequence: Sequence[Candidate],
    token_id: int,
) -> Ending:
    """Return the end by ``sequence``, the last of which is ``token_id``."""
    ids = tuple(each.token_id for each in sequence)
    first = followed(sequence[:-1], table) if len(sequence) > 1 else sequence[0]
    index = tokens_in(at.count)
    if not stops.hides:
        text, found, parted = _parted(stops, table, at, token_id)
        if found is not None:
            return found
        before = first.since[: first.before_it]
        origin = first.origin
        if origin is None:
            size = sum(last > index - first.place for last in parted.lasts)
            before += parted.before[:size]
            if size < len(parted.firsts):
                origin = index - parted.firsts[size]
            elif parted.own:
                origin = index - parted.age
        start = _text_count(first.before.count) + size_of(before)
        origin = first.place if origin is None else min(origin, first.place)
        text += parted.own
        return Ending(text, ids, True, start, _end_of(at, text), origin)
    # A hidden sequence is cut from the first byte of its first token. What that token found
    # unfinished and a later one decided was matched then.
    held = first.before
    text, found = _released(stops, table, held, ignore=bool(first.spared))
    output = code_points_in(at.count) - len(at.withheld)
    if found and not found.visible and code_points_in(found.start) < output:
        # It begins in text that was output, released by what is cut now: the sequence is the stop.
        text, found = _released(stops, table, held, ignore=True)
    text = text[output - (code_points_in(held.count) - len(held.withheld)) :]
    if found is not None:
        return found._replace(text=text)
    end = _text_count(at.count) - size_of(at.withheld) + size_of(text)
    return Ending(text, ids, False, end, end, first.place)


def _end_of(at: Checkpoint, text: str) -> int:
    """The count of all text once ``text``, which begins with what was withheld, is output."""
    return _text_count(at.count) - size_of(at.withheld) + size_of(text)


def _released(
    stops: StopSet, table: Table, at: Checkpoint, *, ignore: bool = False
) -> tuple[str, Ending | None]:
    """The text that comes out because nothing follows, and the stop that it completes."""
    text = table.flush(at.state)
    firsts = table.released(at.state, text)
    return _emptied(*find(stops, at, text, firsts, ignore=ignore))


def _parted(
    stops: StopSet, table: Table, at: Checkpoint, token_id: int
) -> tuple[str, Ending | None, provenance.Parted]:
    """What comes out before a token that ends the stream by its id; and the token's own text.

    Of that nothing is matched. It begins with a character that an earlier token may have begun.
    """
    parted = table.parted(at.state, token_id)
    text, found = _emptied(*find(stops, at, parted.before, parted.firsts))
    return text, found, parted


def _emptied(read: Read, found: Ending | None) -> tuple[str, Ending | None]:
    """The text with what is withheld after it, unless a stop is complete."""
    return (read.text, found) if found else (read.text + read.after.jailed, None)
