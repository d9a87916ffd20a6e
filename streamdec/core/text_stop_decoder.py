"""TextStopDecoder: text in, text out until a stop string or pattern ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack, final

from streamdec.chunks import NOTHING, Chunk, FinishReason, StopMatch, check_finish_reason, chunk_of
from streamdec.core import snapshots
from streamdec.core.conditions import NO_CONDITIONS, StopConditions, StopOptions, conditions_of
from streamdec.core.counting import count_of, size_of, sizes_in
from streamdec.core.sections import Seen
from streamdec.core.stop_set import StopSet, StopState
from streamdec.core.stop_sets import text_stop_set_for
from streamdec.errors import FinishedError

__all__ = ["TextStopDecoder"]

OF_TOKENS = (
    *("stop_token_ids", "visible_stop_token_ids", "eos_token_ids", "min_tokens", "max_tokens"),
    "ignore_eos",
)
"""The conditions that a stream of text cannot have."""


@final
class TextStopDecoder:
    r"""End a stream of text at a stop; never outputs a part of a hidden stop.

    Use it for text without token ids, such as in a proxy in front of an API without ``stop``.
    ``wrap(pieces, decoder)`` reads an asynchronous source, and closes it at the stop. For a plain
    iterable use ``iter_chunks(pieces, decoder)``. The result does not depend on how the text was
    cut into pieces. Only the longest suffix that may still become a hidden stop is withheld
    (``jailed``). Stop rules are those of StopSequenceDecoder, with which it shares the matcher.

    Args:
        conditions: stop strings, patterns, and markers that are texts. Without them the text ends
            at ``flush``. Sections begin outside unless ``starts_inside=True`` was given.
        stops: the arguments of StopConditions, instead of ``conditions``: ``stop="User:"``.

    Raises:
        TypeError: ``conditions`` is not a StopConditions, or is given together with ``stops``.
        ValueError: the conditions have token ids, ``ignore_eos``, ``min_tokens`` or ``max_tokens``.

    **Cost.** A step takes some 40 ns for each character.
    **Memory.** A stream takes some 200 bytes, plus the jailed text.
    **Threads.** Use a stream in one thread at a time.

    >>> from streamdec import StopConditions, TextStopDecoder
    >>> decoder = TextStopDecoder(stop="\nUser:")
    >>> decoder.step("Hi\nUs").text, decoder.jailed
    ('Hi', '\nUs')
    >>> decoder.step("er: and more")
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:')
    """

    __slots__ = ("_count", "_end", "_last", "_match", "_state", "_stops")

    _stops: StopSet
    _state: StopState
    _end: Chunk | None
    _match: StopMatch | None
    _count: int
    """The count of the text that was read, without ``_last``."""
    _last: str
    """Of a stopped stream: the last piece, up to the end of the stop."""

    def __init__(
        self, conditions: StopConditions | None = None, **stops: Unpack[StopOptions]
    ) -> None:
        conditions = conditions_of(conditions, stops)
        message = "a TextStopDecoder sees text and no token ids"
        for name in OF_TOKENS:
            if getattr(conditions, name) != getattr(NO_CONDITIONS, name):
                hint = "leave it out, or use StopSequenceDecoder"
                raise ValueError(f"{message}, so it cannot have {name}; {hint}")
        for marker in conditions.markers:
            if not isinstance(marker, str):
                raise ValueError(f"{message}; a marker must be a text, not the id {marker}")
        self._stops = text_stop_set_for(conditions)
        self.reset()

    def reset(self) -> None:
        """Go back to the beginning; at any time, also after the end."""
        self._state = self._stops.first
        self._end, self._match = None, None
        self._count = 0
        self._last = ""

    def step(self, text: str) -> Chunk:
        """Return what may be output now that ``text`` came.

        Args:
            text: the next piece, of any length; "" is allowed. The part of it after a stop is
                dropped.

        Raises:
            TypeError: ``text`` is not a string.
            FinishedError: the stream has ended.

        After an error the stream is as it was before the call.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, not {text!r:.60}")
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins again"
            )
        chunk, after, hit = self._stops.read(self._state, text)
        if after is not None:
            self._state = after
            self._count += size_of(text)
            if chunk is None:
                return chunk_of(text) if text else NOTHING
            return chunk
        assert chunk is not None
        assert hit is not None
        self._end, self._last = chunk, text[: hit.end]
        count = self._count + size_of(self._last)
        (end, byte_end), (start, byte_start) = sizes_in(count), sizes_in(count - size_of(hit.text))
        self._match = StopMatch(hit.stop, hit.visible, start, end, byte_start, byte_end, None, 0)
        return chunk

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        """End the stream: return the jailed text, with ``finish_reason``.

        Args:
            finish_reason: why it ended: ``"stop"``, ``"length"``, ``"content_filter"``,
                ``"abort"`` or ``"error"``. In a proxy, what the API behind it said.

        After the end it returns an empty chunk with the reason of the last one. Raises ValueError
        for another ``finish_reason``.
        """
        check_finish_reason(finish_reason)
        if self._end is not None:
            return Chunk("", self._end.finish_reason, self._end.stop_reason)
        self._end = Chunk(self._state.jailed, finish_reason)
        return self._end

    @property
    def conditions(self) -> StopConditions:
        """When the stream ends."""
        return self._stops.conditions

    @property
    def jailed(self) -> str:
        """Text that is withheld because it may become a stop; "" after the end."""
        return "" if self._end is not None else self._state.jailed

    @property
    def finished(self) -> bool:
        """Whether the stream has ended."""
        return self._end is not None

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended; None while it has not."""
        return None if self._end is None else self._end.finish_reason

    @property
    def match(self) -> StopMatch | None:
        """The stop that ended the stream, if one did, and where it stands in the text.

        ``token_index`` is None and ``tokens_before`` is 0: there are no tokens.
        """
        return self._match

    def fork(self) -> Self:
        """Return an independent copy of the stream. ``copy.copy`` does the same."""
        other = object.__new__(type(self))
        for name in TextStopDecoder.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.snapshot(),)

    def snapshot(self) -> dict[str, Any]:
        r"""Return the stream as JSON (dicts, lists, text, numbers), for ``restore``.

        It has the conditions and the end of the text that may be part of a stop. After a stop it
        has the last piece up to the stop.

        >>> from streamdec import StopConditions, TextStopDecoder
        >>> decoder = TextStopDecoder(StopConditions(stop="\nUser:"))
        >>> decoder.step("Hi\nUs").text
        'Hi'
        >>> TextStopDecoder.restore(decoder.snapshot()).step("ual").text
        '\nUsual'
        """
        state = self._state
        return snapshots.sealed(
            {
                "format": snapshots.FORMAT,
                "machine": "text",
                "conditions": self.conditions.to_json(),
                "counts": [0, *sizes_in(self._count)],
                "seen": None if state is self._stops.first else self._dump_seen(state.seen),
                "last": [*self._last],
                "end": self.finish_reason,
            }
        )

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> Self:
        """Return the stream that ``snapshot()`` described.

        Args:
            snapshot: as ``snapshot()`` returned it, possibly by way of JSON. It may come from
                anywhere: all of it is checked.

        Raises SnapshotError if ``snapshot`` is not one of a TextStopDecoder, or is malformed.
        """
        fields = snapshots.load_fields("text", snapshot)
        stream = cls()
        with snapshots.reading(fields, lambda: stream):
            stream = cls(StopConditions.from_json(fields.get("conditions", {})))
            stream._count = count_of(*snapshots.counts(fields["counts"]))
            if "seen" in fields:
                stream._load_seen(fields["seen"])
            last, reason = "".join(fields.get("last", [])), fields.get("end")
            if last:
                stream.step(last)
            if reason is not None and not stream.finished:
                stream.flush(reason)
        return stream

    def _dump_seen(self, seen: Seen) -> list[Any]:
        """Return ``seen`` as JSON.

        Texts are lists of letters: JSON would make one letter of two halves of a surrogate pair.
        """
        stops = self._stops.matcher.stops
        letters = stops.context(seen.tail), stops.text(seen.tail), seen.marker
        return [seen.section, *map(list, letters)]

    def _load_seen(self, data: Any) -> None:
        """Continue after what ``_dump_seen`` gave ``data`` for, or raise ValueError."""
        section, context, *kept = data
        text, marker = map("".join, kept)
        matcher, sections = self._stops.matcher, self._stops.matcher.sections
        snapshots.numbers([section], 0, len(sections))
        before: Any = matcher.stops.tail_after(tuple(context))
        tail, hit = matcher.stops.step(before, text)
        seen = Seen(tail, section, sections.read(section, "", marker)[1])
        longest = max(text, marker, key=len)
        is_end = longest.endswith(text) and longest.endswith(marker)
        if hit is not None or not is_end:
            raise ValueError("expected the end of a text that may be part of a stop or a marker")
        # The text before it must be possible, too.
        (end, byte_end), (size, num_bytes) = sizes_in(self._count), sizes_in(size_of(longest))
        snapshots.counts([0, end - size, byte_end - num_bytes])
        self._state = self._stops.state(seen, 0, text[len(text) - matcher.jailed(seen) :])

    def __repr__(self) -> str:
        state = f"jailed {self.jailed!r}"
        if self._end is not None:
            state = f"finished ({self._end.finish_reason})"
        return f"<{type(self).__name__} {sizes_in(self._count)[0]} characters, {state}>"
