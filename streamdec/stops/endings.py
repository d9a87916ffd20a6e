r"""The end of a stream with stops: its last output, and the place of the stop.

In: a :class:`Checkpoint`, all that a stream knows at one moment. Out: an :class:`Ending`. Nothing
here changes a stream, so an end that raises (a pattern that takes too long) leaves the stream as it
was. Positions are counts (:mod:`streamdec.tables.counting`) of the whole generated text.

**Theory.** At any moment the generated text has three parts: what was output, what is decided but
jailed, and what the unfinished bytes of the table's state would give if nothing followed. A stream
ends in one of three ways. They differ in which part of this text is still read, and where it is
cut:

* *A stop in the text.* The stops read the letters that a token decides. A hidden stop is cut at its
  start, which may be in what is withheld; a visible one at its end.
* *Nothing follows* (``flush``, a limit, the end of the engine). The unfinished bytes become text.
  The stops read it too, so this may also complete a stop.
* *An id that stops by itself.* All that the tokens before it left is released, as above. The text
  of the id itself is not read. It is output if the stop is visible. Where an earlier token began
  its first character, :class:`~streamdec.tables.provenance.Parted` says which part is whose.

**A worked example.** Id 1 is a stop. It completes the character that token 0 began:

>>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
>>> tokenizer = MockTokenizer.from_tokens([b"caf\xc3", b"\xa9!"])
>>> def end(conditions):
...     decoder = StopSequenceDecoder(tokenizer, conditions)
...     return decoder.step(0).text, decoder.step(1).text, decoder.match.start
>>> end(StopConditions(stop_token_ids=[1]))          # hidden: as if nothing followed token 0
('caf', '\ufffd', 4)
>>> end(StopConditions(visible_stop_token_ids=[1]))  # visible: its own text is output
('caf', 'é!', 3)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streamdec.chunks import StopReason
from streamdec.stops.marks import origin_of
from streamdec.stops.stop_set import Matching, Read, StopSet
from streamdec.tables import provenance
from streamdec.tables.counting import (
    code_points_in,
    size_of,
    tokens_in,
)
from streamdec.tables.provenance import Ages
from streamdec.tables.table import Table


class Checkpoint(NamedTuple):
    """All that a stream with stops knows at one moment."""

    state: Any
    """The state of the table."""
    matching: Matching
    marks: tuple[int, ...]
    """For each token of the jailed text: the count after its letters, its tokens included."""
    shield: int
    """Code points that began in this token or an earlier one cannot be part of a stop."""
    count: int  # type: ignore[assignment]
    """The count (see counting) of the tokens so far and of the text that they decided."""


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
    """Read ``text``, which was decided at ``at``.

    ``firsts``: how many tokens ago each code point of ``text`` began.

    Returns what the text did (a Read, with the text that was withheld before), and the Ending if
    the text completed a stop, else None.
    """
    index = tokens_in(at.count)
    skip = sum(index - age <= at.shield for age in firsts)
    read = stops.read(at.matching, text, skip=skip, ignore=ignore)
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


def _text_count(count: int) -> int:
    """``count`` without its tokens."""
    return count - tokens_in(count)


# --- the ends -------------------------------------------------------------------------------------


def at_release(stops: StopSet, table: Table, at: Checkpoint, *, ignore: bool) -> Ending:
    """Return the end because nothing follows. The released text may complete a stop."""
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
    """Return the end by a stop id or an end-of-sequence id.

    The withheld text of earlier tokens is released before the text of the id.
    """
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


def _end_of(at: Checkpoint, text: str) -> int:
    """The count of all text once ``text`` is output.

    ``text`` begins with the jailed text.
    """
    return _text_count(at.count) - size_of(at.matching.jailed) + size_of(text)


def _released(
    stops: StopSet, table: Table, at: Checkpoint, *, ignore: bool = False
) -> tuple[str, Ending | None]:
    """The text that is released if nothing follows, and the stop that it completes."""
    text = table.flush(at.state)
    firsts = table.released(at.state, text)
    return _emptied(*find(stops, at, text, firsts, ignore=ignore))


def _parted(
    stops: StopSet, table: Table, at: Checkpoint, token_id: int
) -> tuple[str, Ending | None, provenance.Parted]:
    """Return the text before a token that ends the stream, and the token's own text.

    The token ends the stream by its id. No stop is searched in the token's own text. An earlier
    token may have begun its first character.
    """
    parted = table.parted(at.state, token_id)
    text, found = _emptied(*find(stops, at, parted.before, parted.firsts))
    return text, found, parted


def _emptied(read: Read, found: Ending | None) -> tuple[str, Ending | None]:
    """The text with what is withheld after it, unless a stop is complete."""
    return (read.text, found) if found else (read.text + read.after.jailed, None)
