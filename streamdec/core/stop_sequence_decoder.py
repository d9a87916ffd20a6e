"""StopSequenceDecoder: token ids in, text out until a stop is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex, Unpack, final

from streamdec.chunks import Chunk, FinishReason, check_finish_reason
from streamdec.core.conditions import (
    NO_DEFINITION,
    SectionsOption,
    StopConditions,
    StopOptions,
    conditions_of,
    definition_of,
)
from streamdec.core.decode_options import ByteFallbackMode, Options, UnknownIds
from streamdec.core.decoder import TokenDecoder
from streamdec.core.examining import end_unfollowed, release
from streamdec.core.step import feed_function, step_all, step_function
from streamdec.mistakes import check_flag
from streamdec.protocols import Decoder

__all__ = ["DecoderOptions", "StopSequenceDecoder"]


class DecoderOptions(StopOptions, total=False):
    """The options of StopSequenceDecoder and StopConditions, wherever these can be given.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.streams import DecoderOptions
    >>> options: DecoderOptions = {"stop": "test", "unknown_ids": "error"}
    >>> [chunk.text for chunk in iter_chunks([1, 2, 3], MockTokenizer(), **options)]
    ['Hello', ' world', ' ']
    """

    skip_special_tokens: bool
    byte_fallback: ByteFallbackMode
    unknown_ids: UnknownIds
    clean_up_tokenization_spaces: bool
    spans: bool
    sections: SectionsOption | None


@final
class StopSequenceDecoder(TokenDecoder):
    r"""Turn token ids into text until a stop is complete.

    It never outputs a part of a hidden stop.

    Withheld are the bytes of an unfinished character (``held``), and text that may still become a
    hidden stop or a marker (``jailed``). The stop that is complete first ends the stream, and of
    several at one code point the longest.

    Args:
        tokenizer: as for DecodeStream.
        conditions: when the stream ends. Or give their parts as ``stops``. Without either, the
            stream ends at ``flush``.
        prompt_token_ids: as for DecodeStream. A stop does not begin in the prompt.
        skip_special_tokens: as for DecodeStream.
        byte_fallback: as for DecodeStream.
        unknown_ids: as for DecodeStream.
        clean_up_tokenization_spaces: as for DecodeStream.
        spans: as for DecodeStream. A span is available once its text was output.
        sections: a dict from the name of each section, such as ``"reasoning"``, to a pair of an
            opening and a closing marker, or to a list of such pairs. A marker is a text or a token
            id; the name of a skipped special token is found by the token's id. Then ``section`` of
            a chunk is the name of its section, or None outside of all sections, and the text of
            markers is not output. A chunk whose text is in several sections has ``split()``. If the
            last marker of the prompt is an opening one, the stream begins in that section.
        stops: the arguments of StopConditions, instead of ``conditions``: ``stop="User:"``.
            ``starts_inside`` is also for ``sections``: whether the stream begins in the first of
            them, for any prompt. It may then be given with ``conditions``. None: as the conditions
            say, if ``ignore_stops_between`` has the same markers; otherwise the prompt decides.

    Raises what DecodeStream and StopConditions raise; TypeError if ``conditions`` is not a
    StopConditions, or is given together with ``stops``, or ``sections`` is not such a dict;
    ValueError if a section has equal markers or no markers, or a marker opens two sections.

    **Sections.** Stops are matched in the whole text, the markers included, except between the
    markers of ``ignore_stops_between``. Positions (``match``, spans, ``num_characters``) count the
    whole generated text, with the markers.

    **Cost.** A step is one look-up, for one stop or a thousand; two, if the text of the token has a
    letter with which a stop begins. On the windowed route, and while a pattern withholds more than
    16 code points, the text of each step is searched.

    **Memory.** A stream takes what a DecodeStream takes, plus the jailed text. On the bytes route,
    streams with equal conditions share some kilobytes. A tokenizer keeps 4,096 sets of conditions
    that were used more than once or have ids, at most 32 MiB. **Threads** are as for DecodeStream.

    >>> from streamdec import MockTokenizer, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
    >>> decoder = StopSequenceDecoder(tokenizer, stop="\nUser:")
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
        conditions: StopConditions | None = None,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = True,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
        spans: bool = False,
        sections: SectionsOption | None = None,
        **stops: Unpack[StopOptions],
    ) -> None:
        definition = NO_DEFINITION if sections is None else definition_of(sections)
        starts_inside = stops.pop("starts_inside", None)
        if starts_inside is not None:
            check_flag("starts_inside", starts_inside)
            if sections is None or stops.get("ignore_stops_between"):
                stops["starts_inside"] = starts_inside
        conditions = conditions_of(conditions, stops)
        options = Options(
            skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces
        )
        self._begin(
            tokenizer,
            options,
            conditions,
            prompt_token_ids,
            spans=spans,
            definition=definition,
            starts_inside=None if sections is None else starts_inside,
        )

    if TYPE_CHECKING:

        def step(self, token_id: SupportsIndex) -> Chunk:
            """Return the chunk of ``token_id``."""

        def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
            """Return one chunk of all of ``token_ids``."""

    else:
        step = step_function(returns_text=False)
        feed = feed_function(returns_text=False)

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> list[Chunk]:
        """Return a list with the chunk of each token that was taken.

        Args:
            token_ids: as for ``feed``. Ids after the end of the stream are not taken.

        Raises what ``feed`` raises.
        """
        return step_all(self.step, token_ids)

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
        >>> decoder.feed([0, 1]).text, decoder.flush("length").text
        ('Hi', '\nUs')
        """
        check_finish_reason(finish_reason)
        if self._end is not None:
            last = self._end.chunk
            return Chunk("", last.finish_reason, last.stop_reason)
        return end_unfollowed(self, finish_reason)

    def release(self) -> Chunk:
        r"""Return a chunk with what is held and jailed; the stream continues.

        Use it if more input is appended to the text while the stream runs. A later stop cannot
        contain released text. If the released text completes a stop, that ends the stream. Raises
        FinishedError after the end, and RewriteError as ``step`` does.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.feed([0, 1]).text, decoder.release().text, decoder.step(2).text
        ('Hi', '\nUs', 'er:')
        """
        return release(self)
