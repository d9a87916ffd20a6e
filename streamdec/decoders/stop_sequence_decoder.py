"""StopSequenceDecoder: token ids in, text out until a stop is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Never, SupportsIndex

from streamdec.chunks import Chunk, FinishReason, StopMatch
from streamdec.decoders.machine import Machine
from streamdec.decoders.mistakes import not_conditions, unknown_decoder_option
from streamdec.protocols import Decoder
from streamdec.stops.conditions import NO_CONDITIONS, StopConditions
from streamdec.tables.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.tables.shared_tables import table_for

__all__ = ["StopSequenceDecoder"]


class StopSequenceDecoder(Machine):
    r"""Turn token ids into text until a stop is complete.

    It never outputs a part of a hidden stop.

    Two things are withheld: the bytes of an unfinished character (``held``), and text that may
    still become a hidden stop (``jailed``), which is shorter than that stop. The stop that is
    complete first ends the stream. If several are complete at one code point, the longest ends it.

    Args:
        tokenizer: as for DecodeStream.
        conditions: when the stream ends; without them, at ``flush``.
        prompt_token_ids: as for DecodeStream. A stop does not begin in the prompt.
        skip_special_tokens: as for DecodeStream.
        byte_fallback: as for DecodeStream.
        unknown_ids: as for DecodeStream.
        clean_up_tokenization_spaces: as for DecodeStream.
        spans: as for DecodeStream. A span is available once its text was output.
        others: not accepted. The TypeError says what to write instead.

    Raises what DecodeStream raises; TypeError if ``conditions`` is not a StopConditions.

    **Cost.** A step is one look-up, for one stop or a thousand. If a token's text has a letter with
    which a stop begins, the step needs a second one (:mod:`streamdec.stops.stop_set`). On the
    windowed route, and while a pattern withholds more than 16 code points, the text of each step is
    searched.

    **Memory.** A stream takes some 350 bytes for any length, plus the jailed text; 5.5 KB on the
    windowed route, where nothing is shared. On the bytes route, streams with equal conditions share
    some kilobytes: their stops, and at most 16,384 texts of 150 bytes. The 4,096 sets of conditions
    that were used last are kept for each tokenizer and its decoding options, or fewer if they take
    more than 32 MiB together. The cache for each id is that of DecodeStream.

    **Threads.** Use a stream in one thread at a time. Different streams may run in different
    threads.

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
    _parameters: ClassVar[tuple[str, ...]] = ("conditions", "prompt_token_ids", "spans")
    """The parameters of the constructor besides the tokenizer and the options of decoding."""

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
            raise unknown_decoder_option(type(self).__name__, others, *self._parameters)
        if not isinstance(conditions, StopConditions):
            raise not_conditions(type(self).__name__, conditions)
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

        Raises what ``step`` raises. Then ``error.chunk`` is the text of the tokens before the
        error, ``error.num_taken`` their number, and the stream is as it was after them. Raises
        TypeError, and takes no token, if ``token_ids`` is not a list of ids.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 3, 1, 2, 3, 3])
        Chunk(text='Hi!', finish_reason='stop', stop_reason='\nUser:', unread_tokens=2)
        """
        return self.feed(token_ids)

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        r"""End the stream; return a chunk with the withheld text.

        Args:
            finish_reason: why the stream ends: ``"stop"``, ``"length"``, ``"content_filter"``,
                ``"abort"`` or ``"error"``. If the withheld text completes a stop, the chunk has
                that stop instead.

        After the end it returns an empty chunk with the reason of the last one.

        Raises ValueError for another ``finish_reason``, and RewriteError as ``step`` does. After an
        error the stream has not ended.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1]).text, decoder.flush("length").text
        ('Hi', '\nUs')
        """
        return self.end(finish_reason)

    def release(self) -> Chunk:
        r"""Return a chunk with what is held and jailed; the stream continues.

        Use it if more input is appended to the text while the stream runs. A later stop cannot
        contain released text. If the released text completes a stop, that ends the stream. Raises
        FinishedError after the end, and RewriteError as ``step`` does.

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
