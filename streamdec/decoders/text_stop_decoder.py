"""TextStopDecoder: text in, text out until a stop string or pattern ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never, Self, final

from streamdec.chunks import (
    NOTHING,
    Chunk,
    FinishReason,
    StopMatch,
    check_finish_reason,
    chunk_of,
)
from streamdec.decoders import snapshots
from streamdec.decoders.copies import Copyable
from streamdec.errors import FinishedError
from streamdec.mistakes import unknown_option
from streamdec.stops.conditions import NO_CONDITIONS, OPTIONS, StopConditions
from streamdec.stops.stop_set import Matching, Read, StopSet
from streamdec.stops.stop_sets import text_stop_set_for

__all__ = ["TextStopDecoder"]

OF_TOKENS = (
    *("stop_token_ids", "visible_stop_token_ids", "eos_token_ids"),
    *("min_tokens", "max_tokens", "ignore_eos"),
)
"""The conditions that a stream of text cannot have."""


def _checked(conditions: StopConditions) -> StopConditions:
    """Return ``conditions``. Raises ValueError if they are about token ids."""
    for name in OF_TOKENS:
        if getattr(conditions, name) != getattr(NO_CONDITIONS, name):
            raise ValueError(
                f"a TextStopDecoder sees text and no token ids, so it cannot have {name}; "
                "leave it out, or use StopSequenceDecoder"
            )
    for marker in conditions.markers:
        if not isinstance(marker, str):
            raise ValueError(
                f"a TextStopDecoder sees text and no token ids; a marker must be a text, not the "
                f"id {marker}"
            )
    return conditions


@final
class TextStopDecoder(Copyable):
    r"""End a stream of text at a stop; never outputs a part of a hidden stop.

    Use it for text without token ids, such as in a proxy in front of an API without ``stop``.
    ``wrap(pieces, decoder)`` reads an asynchronous source, and closes it at the stop. For a plain
    iterable use ``TextIterator(pieces, decoder)``. The result does not depend on how the text was
    cut into pieces. Only the longest suffix that may still become a hidden stop is withheld
    (``jailed``). Stop rules are those of StopSequenceDecoder, with which it shares the matcher.

    Args:
        conditions: stop strings, patterns, and markers that are texts. Without them the text ends
            at ``flush``. Sections begin outside unless ``starts_inside=True`` was given.
        more: not accepted, and neither are ``others``. The TypeError says what to write instead.

    Raises:
        TypeError: ``conditions`` is not a StopConditions.
        ValueError: ``conditions`` have token ids, ``ignore_eos``, ``min_tokens`` or ``max_tokens``.

    **Cost.** A step takes some 40 ns for each character.
    **Memory.** A stream takes some 200 bytes, plus the jailed text.
    **Threads.** Use a stream in one thread at a time.

    >>> from streamdec import StopConditions, TextStopDecoder
    >>> decoder = TextStopDecoder(StopConditions(stop="\nUser:"))
    >>> decoder.step("Hi\nUs").text, decoder.jailed
    ('Hi', '\nUs')
    >>> decoder.step("er: and more")
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:')
    """

    __slots__ = ("_end", "_match", "_matching", "_num_bytes", "_num_read", "_stops")

    _stops: StopSet
    _matching: Matching
    _end: Chunk | None
    _match: StopMatch | None
    _num_read: int
    """Code points that were read."""
    _num_bytes: int
    """Their bytes as UTF-8."""

    def __init__(
        self, conditions: StopConditions = NO_CONDITIONS, *more: Never, **others: Never
    ) -> None:
        if more:
            told = "reads text, without a tokenizer; write TextStopDecoder(conditions)"
            raise TypeError(f"a TextStopDecoder {told}")
        if others:
            elsewhere = dict.fromkeys(OPTIONS, "write TextStopDecoder(StopConditions({}=...))")
            raise unknown_option("TextStopDecoder", next(iter(others)), ("conditions",), elsewhere)
        if not isinstance(conditions, StopConditions):
            raise TypeError(
                f"conditions must be StopConditions, not {conditions!r:.80}; write "
                "TextStopDecoder(StopConditions(stop=...))"
            )
        self._stops = text_stop_set_for(_checked(conditions))
        self.reset()

    def reset(self) -> None:
        """Go back to the beginning; at any time, also after the end."""
        self._matching = self._stops.first
        self._end, self._match = None, None
        self._num_read = self._num_bytes = 0

    def step(self, text: str) -> Chunk:
        r"""Return what may be output now that ``text`` came.

        Args:
            text: the next piece, of any length; "" is allowed. The part of it after a stop is
                dropped.

        Raises:
            TypeError: ``text`` is not a string.
            FinishedError: the stream has ended.

        After an error the stream is as it was before the call.

        >>> from streamdec import StopConditions, TextStopDecoder
        >>> decoder = TextStopDecoder(StopConditions(visible_stop="."))
        >>> decoder.step("It is 42. No")
        Chunk(text='It is 42.', finish_reason='stop', stop_reason='.')
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, not {text!r:.60}")
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins again"
            )
        read = self._stops.read(self._matching, text)
        if read.hit is not None:
            return self._stopped(read, text)
        self._matching = read.after
        self._num_read += len(text)
        self._num_bytes += _num_bytes(text)
        return chunk_of(read.text) if read.text else NOTHING

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        r"""End the stream: return what was withheld, with ``finish_reason``.

        Args:
            finish_reason: why it ended: ``"stop"``, ``"length"``, ``"content_filter"``,
                ``"abort"`` or ``"error"``. In a proxy, what the API behind it said.

        After the end it returns an empty chunk with the reason of the last one. Raises ValueError
        for another ``finish_reason``.

        >>> from streamdec import StopConditions, TextStopDecoder
        >>> decoder = TextStopDecoder(StopConditions(stop="\nUser:"))
        >>> decoder.step("Hi\nUs").text, decoder.flush("length").text
        ('Hi', '\nUs')
        """
        check_finish_reason(finish_reason)
        if self._end is None:
            read = self._stops.read(self._matching, "")
            if read.hit is not None:
                return self._stopped(read, "")
            self._end = Chunk(read.text + read.after.jailed, finish_reason)
            self._matching = self._stops.first
            return self._end
        return Chunk("", self._end.finish_reason, self._end.stop_reason)

    def _stopped(self, read: Read, text: str) -> Chunk:
        """End at the stop that is complete in ``text``."""
        hit = read.hit
        assert hit is not None
        end, size = self._num_read + read.end, _num_bytes(text[: read.end])
        self._num_read, self._num_bytes = end, self._num_bytes + size
        start, byte_end = end - hit.size, self._num_bytes
        byte_start = byte_end - _num_bytes(hit.text)
        self._match = StopMatch(hit.stop, hit.visible, start, end, byte_start, byte_end, None, 0)
        self._matching = self._stops.first
        self._end = Chunk(read.text, "stop", hit.stop)
        return self._end

    @property
    def conditions(self) -> StopConditions:
        """When the stream ends."""
        return self._stops.conditions

    @property
    def jailed(self) -> str:
        """Text that is withheld because it may become a stop; "" after the end."""
        return "" if self._end is not None else self._matching.jailed

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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.snapshot(),)

    def snapshot(self) -> dict[str, Any]:
        r"""Return the stream as JSON (dicts, lists, text, numbers), for ``restore``.

        It has the conditions and the end of the text that may be part of a stop. After the end of
        the stream it has the text of the last chunk. Other text that was output is not in it.

        >>> from streamdec import StopConditions, TextStopDecoder
        >>> decoder = TextStopDecoder(StopConditions(stop="\nUser:"))
        >>> decoder.step("Hi\nUs").text
        'Hi'
        >>> TextStopDecoder.restore(decoder.snapshot()).step("ual").text
        '\nUsual'
        """
        has_ended = self._end is not None
        fields = {
            "format": snapshots.FORMAT,
            "machine": "text",
            "conditions": self.conditions.to_json(),
            "size": snapshots.dump_size(self._num_read, self._num_bytes),
            "matching": None if has_ended else snapshots.dump_matching(self._stops, self._matching),
            **snapshots.dump_end(self._end, self._match),
        }
        return {key: value for key, value in fields.items() if value}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], *others: Never) -> Self:
        """Return the stream that ``snapshot()`` described.

        Args:
            snapshot: as ``snapshot()`` returned it, possibly by way of JSON. It may come from
                anywhere: all of it is checked.
            others: not accepted. The snapshot has the conditions, and there is no tokenizer.

        Raises SnapshotError if ``snapshot`` is not one of a TextStopDecoder, or is malformed;
        TypeError for ``others``.
        """
        if others:
            told = "takes only a snapshot, which has the conditions"
            raise TypeError(f"{cls.__name__}.restore() {told}")
        fields = snapshots.load_fields("text", snapshot)
        with snapshots.reading(fields):
            stream = cls(StopConditions.from_json(fields.take("conditions", {})))
            stream._num_read, stream._num_bytes = fields.size()
            stream._end, stream._match = snapshots.load_end(
                stream.conditions, fields.take("end", None), fields.take("match", None)
            )
            snapshots.check_match(stream._match, 0)
            if stream._end is None:
                matching = snapshots.load_matching(stream._stops, fields.take("matching", None))
                tail = stream._stops.matcher.text(matching.tail)
                snapshots.check_tail(tail, stream._num_read, stream._num_bytes)
                stream._matching = matching
        return stream

    def __repr__(self) -> str:
        state = f"jailed {self.jailed!r}"
        if self._end is not None:
            state = f"finished ({self._end.finish_reason})"
        return f"<{type(self).__name__} {self._num_read} characters, {state}>"


def _num_bytes(text: str) -> int:
    """The number of bytes of ``text`` as UTF-8.

    Half of a surrogate pair, which JSON may contain, has 3 bytes.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
