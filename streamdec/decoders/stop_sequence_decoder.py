"""StopSequenceDecoder: token ids in, text out until something says stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Never, SupportsIndex

from streamdec.chunks import Chunk, FinishReason, StopMatch
from streamdec.decoders.machine import Machine, fed
from streamdec.protocols import Decoder
from streamdec.stops.conditions import NO_CONDITIONS, StopConditions
from streamdec.tables.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.tables.shared_tables import table_for

__all__ = ["StopSequenceDecoder"]


class StopSequenceDecoder(Machine):
    r"""Turns token ids into text until a stop is complete; never outputs a part of a hidden stop.

    Two things are withheld: an unfinished character (``held``), and the longest suffix of the text
    that may still become a hidden stop (``jailed``), which is shorter than that stop. The stop that
    is complete first ends the stream; of several that are complete at one code point the longest.

    Args:
        tokenizer: as for DecodeStream.
        conditions: when the stream ends; without them, at ``flush``.
        prompt_token_ids: as for DecodeStream. A stop does not begin in the prompt.
        skip_special_tokens: as for DecodeStream.
        byte_fallback: as for DecodeStream.
        unknown_ids: as for DecodeStream.
        clean_up_tokenization_spaces: as for DecodeStream.
        spans: as for DecodeStream. A span is available once its text was output.
        others: not accepted; the TypeError shows where stop options belong.

    Raises what DecodeStream raises; TypeError if ``conditions`` is not a StopConditions.

    **Cost.** A step is one look-up, with one stop as with a thousand. A token whose text has a
    letter with which a stop begins costs a second look-up (:mod:`streamdec.stops.stop_set`).
    Patterns are searched at each step, and so is the windowed route's text.

    **Memory.** A stream takes some 350 bytes for any length, and what is jailed; 5.5 KB on
    the windowed route. Streams with equal conditions share some kilobytes: their stops, and at most
    16,384 texts of 250 bytes. The 4,096 sets of conditions that were used last are kept for each
    tokenizer, or fewer if they are large. (What DecodeStream keeps for each id comes beside these,
    and is shared with it.)

    **Threads.** One thread at a time; any number of streams may run in any number of threads.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
    >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
    >>> [decoder.step(token_id).text for token_id in (0, 1)], decoder.jailed
    (['Hi', ''], '\nUs')
    >>> decoder.step(2)
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:')
    """

    __slots__ = ()

    _kind = "stop"

    def __init__(
        self,
        tokenizer: Decoder,
        conditions: StopConditions = NO_CONDITIONS,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = True,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
        spans: bool = False,
        **others: Never,
    ) -> None:
        if others:
            raise _unknown_option(type(self).__name__, next(iter(others)))
        if not isinstance(conditions, StopConditions):
            told = f"conditions must be StopConditions, not {conditions!r:.80}"
            raise TypeError(f"{told}; write StopConditions(stop=...)")
        options = Options(
            skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces
        )
        table = table_for(tokenizer, options)
        self._begin(tokenizer, table, conditions, prompt_token_ids, spans=spans)

    if TYPE_CHECKING:

        def step(self, token_id: SupportsIndex) -> Chunk:
            """Return the chunk of ``token_id``."""

    else:
        step = Machine.step_chunk

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        r"""Decode ``token_ids`` and return one chunk.

        Ids after the end are counted in ``unread_tokens``.

        Args:
            token_ids: a list, an array, a tensor or another ordered iterable, which is read to its
                end first.

        Raises what ``step`` raises, and TypeError for what is not a list of ids; ``error.chunk`` is
        then the text of the tokens before, ``error.num_taken`` their number, and the stream is as
        it was after them.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 3, 1, 2, 3, 3])
        Chunk(text='Hi!', finish_reason='stop', stop_reason='\nUser:', unread_tokens=2)
        """
        return fed(self.step, token_ids)

    feed = step_batch

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        r"""End the stream: return what was withheld, with ``finish_reason``.

        The released text may complete a stop, which is then the finish (``"stop"``). After the end:
        an empty chunk with the same finish.

        Raises ValueError for a ``finish_reason`` that does not exist, StopRegexTimeoutError and
        RewriteError as ``step`` does; the stream has then not ended.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1]).text, decoder.flush("length").text
        ('Hi', '\nUs')
        """
        return self.end(finish_reason)

    def release(self) -> Chunk:
        r"""Return what is held and jailed; the stream continues, and stops begin again after it.

        The released text may complete a stop, which is then the finish. For input that is appended
        to while the stream runs. Raises FinishedError after the end.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1]).text, decoder.release().text, decoder.step(2).text
        ('Hi', '\nUs', 'er:')
        """
        return self._release()

    @property
    def conditions(self) -> StopConditions:
        """When the stream ends."""
        return self._stops.conditions

    @property
    def match(self) -> StopMatch | None:
        r"""The stop that ended the stream, if one did, and where it stands in the text.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1, 2]).text, decoder.match.start, decoder.match.tokens_before
        ('Hi', 2, 1)
        """
        return self._match

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended; None while it has not."""
        return None if self._end is None else self._end.finish_reason


def _unknown_option(what: str, name: str) -> TypeError:
    """Return the error for an option that ``what`` does not have, with what to write instead."""
    if name in ("sections", "keep_markers"):
        advice = "write SectionDecoder(tokenizer, conditions, sections=...)"
    else:
        advice = (
            "give the conditions as its second argument: "
            f"{what}(tokenizer, StopConditions(stop=...))"
        )
    return TypeError(f"{what} has no option {name!r}; {advice}")
