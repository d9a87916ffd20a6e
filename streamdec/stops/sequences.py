r"""Stop sequences of ids: the tokens that may begin one, and the text to withhold.

**Theory.** The sequences are a tree (:class:`Node`). Each token that may begin a sequence is a
:class:`Candidate`: it keeps the checkpoint before the token, and the node that the ids from the
token on lead to. Each further id leads to the next node. If there is none, the candidate is
dropped. So there are never more candidates than the longest sequence has ids.

A hidden sequence is cut before the first byte of its first token: the stream then ends as if
nothing had followed the checkpoint. But its first token looks like any other until the last id
comes. So text may be output only if the tokens before each candidate produce it, too. Mostly that
is the text in which no byte is of the candidate or a later token. An open run of byte tokens under
``byte_fallback="exact"`` is different, and so is text that the tokenizer replaces. There a later
token can change what the bytes of earlier ones become. So the text is also compared with what the
earlier tokens would give alone.

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

from collections.abc import Iterable
from contextlib import suppress
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple

from streamdec.errors import RewriteError
from streamdec.tables.counting import code_points_in, tokens_in
from streamdec.tables.spans import Recorder
from streamdec.tables.table import Table

if TYPE_CHECKING:
    from streamdec.stops.stop_set import Matching


class Node:
    """A beginning of stop sequences.

    Args:
        example: one of the sequences.
        size: how many of its ids the beginning has.
    """

    __slots__ = ("_example", "_size", "children", "sequence")

    def __init__(self, example: tuple[int, ...] = (), size: int = 0) -> None:
        self._example, self._size = example, size
        self.children: dict[int, Node] = {}
        """The beginnings with one more id, by that id."""
        self.sequence: tuple[int, ...] | None = None
        """The ids, if they are a whole sequence."""

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the beginning."""
        return self._example[: self._size]


NO_SEQUENCES = Node()


def tree_of(sequences: Iterable[tuple[int, ...]]) -> Node:
    """Return the root of the tree of ``sequences``: the empty beginning."""
    root = NO_SEQUENCES
    for sequence in sequences:
        node = root = Node() if root is NO_SEQUENCES else root
        for size, token_id in enumerate(sequence, 1):
            node = node.children.setdefault(token_id, Node(sequence, size))
        node.sequence = sequence
    return root


class Checkpoint(NamedTuple):
    """All that a stream with stops knows at one moment."""

    state: Any
    """The state of the table."""
    matching: Matching
    withheld: str
    """Decided text that is not output: what is jailed, and more while a sequence may begin."""
    marks: tuple[int, ...]
    """For each token of the jailed text: the count after its letters, its tokens included."""
    shield: int
    """Code points that began in this token or an earlier one cannot be part of a stop."""
    count: int  # type: ignore[assignment]
    """The count (see counting) of the tokens so far and of the text that they decided."""


class Candidate(NamedTuple):
    """A token that may begin a stop sequence, and the stream before and after it."""

    before: Checkpoint
    node: Node
    """Where the ids from the token on lead to."""
    offsets: tuple[int, int] = (0, 0)
    """The prefix and read offsets of the stream before the token."""
    recorder: Recorder | None = None
    """A checkpoint of the spans recorded before the token. Forks share it, so never change it."""
    since: str = ""
    """The text that the token and those after it decided, until ``origin`` is known."""
    before_it: int = 0
    """How many of its first code points have no byte of the token or a later one."""
    spared: int = 0
    """How many code points of ``since`` may be output now: earlier tokens alone would give them."""
    origin: int | None = None
    """The token that began the first code point with such a byte."""
    oldest: int | None = None
    """The token that began the first code point that may not be output now."""

    @property
    def place(self) -> int:
        """The index of the token."""
        return tokens_in(self.before.count)

    @property
    def limit(self) -> int:
        """The code point at which the text begins that is withheld for this candidate."""
        return code_points_in(self.before.count) + self.spared

    def after(self, table: Table, at: Checkpoint, token_id: int, text: str) -> Candidate:
        """Return the candidate after ``token_id``, which decides ``text`` at ``at``."""
        if not text or self.origin is not None:
            return self
        index, since = tokens_in(at.count), self.since + text
        known = table.letters_before(at.state, token_id, index - self.place)
        firsts = table.firsts(at.state, token_id, text)
        alone: str | None = None
        if known is None or table.waits(self.before.state):
            # An earlier token whose bytes are held may give different text once this one follows.
            alone = ""
            with suppress(RewriteError):
                alone = table.flush(self.before.state)
        common = len(since)
        if alone is not None:
            common = len(commonprefix([alone, since]))  # noqa: RUF071 (letters, not paths)
        size = self.before_it
        if known is None:
            size = max(size, common)
        elif size == len(self.since):
            size += known
        spared = max(self.spared, min(size, common))
        origin, oldest = self.origin, self.oldest
        if size < len(since):
            origin = index - firsts[size - len(self.since)]
        if spared < len(since) and oldest is None:
            oldest = index - firsts[spared - len(self.since)]
        return self._replace(
            since=since, before_it=size, spared=spared, origin=origin, oldest=oldest
        )
