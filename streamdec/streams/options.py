"""The options of streams, and the function that makes a decoder from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, SupportsIndex, TypedDict, cast

from streamdec.chunks import FinishReason
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_options import ByteFallbackMode, UnknownIds
from streamdec.core.definitions import SectionsOption
from streamdec.core.stepping import DECODERS, decoder_behind
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.mistakes import NOWHERE, unknown_option
from streamdec.protocols import Decoder
from streamdec.streams.outputs import ids_of
from streamdec.streams.stepper import Machine

__all__ = [
    "NO_PROMPT",
    "ONLY_ASYNC",
    "ChunkBy",
    "DecoderOptions",
    "DecodingOptions",
    "ReadingOptions",
    "Sections",
    "StreamOptions",
    "check_reading_options",
    "decoder_of",
    "misplaced",
    "parted_options",
    "sorted_options",
]

NO_PROMPT: tuple[int, ...] = ()

ChunkBy = Literal["output", "token"]
Sections = SectionsOption | None


class ReadingOptions(TypedDict, total=False):
    """How a stream reads its source: keyword arguments of all streams.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.streams.options import ReadingOptions
    >>> options: ReadingOptions = {"ids": lambda output: output["new"], "chunk_by": "token"}
    >>> [chunk.text for chunk in iter_chunks([{"new": [1, 2]}], MockTokenizer(), **options)]
    ['Hello', ' world', '']
    """

    ids: Callable[[Any], Any]
    """A plain function that returns the ids of an output that OutputReader cannot read."""
    cumulative: bool
    """Whether each output has all ids since the beginning instead of only the new ids. False by
    default."""
    index: int | None
    """The number, from 0, of the sample to read if a request has several (``n > 1``). By default
    None: a source with several samples raises SourceError."""
    chunk_by: ChunkBy
    """``"output"`` (the default): one chunk for each output after which there is new text.
    ``"token"``: one chunk for each token, with or without text."""
    return_token_ids: bool
    """Whether chunks have ``token_ids``; False by default."""
    finish_reason: FinishReason
    """The finish reason if the source ends without one; ``"length"`` by default."""


class DecodingOptions(TypedDict, total=False):
    """Keyword arguments of all streams for decoding, each as for DecodeStream.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.streams.options import DecodingOptions
    >>> options: DecodingOptions = {"skip_special_tokens": False, "unknown_ids": "replace"}
    >>> DecodeStream(MockTokenizer(), **options).step_batch([1, 99])
    ['Hello', '\ufffd']
    """

    skip_special_tokens: bool
    byte_fallback: ByteFallbackMode
    unknown_ids: UnknownIds
    clean_up_tokenization_spaces: bool


class DecoderOptions(DecodingOptions, total=False):
    """The options of a stream's decoder: how ids become text, and when the text ends.

    Options of ids and text, and ``spans``, are as for DecodeStream; ``sections`` is as for
    StopSequenceDecoder; all others are as for StopConditions. ``starts_inside`` applies to
    ``sections`` and to ``ignore_stops_between``.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.streams.options import DecoderOptions
    >>> options: DecoderOptions = {"stop": "test", "unknown_ids": "error"}
    >>> [chunk.text for chunk in iter_chunks([1, 2, 3], MockTokenizer(), **options)]
    ['Hello', ' world', ' ']
    """

    stop: str | Iterable[str] | None
    stop_token_ids: SupportsIndex | Iterable[SupportsIndex] | None
    visible_stop: str | Iterable[str] | None
    visible_stop_token_ids: SupportsIndex | Iterable[SupportsIndex] | None
    include_stop_str_in_output: bool
    min_tokens: int
    max_tokens: int | None
    ignore_eos: bool
    eos_token_ids: SupportsIndex | Iterable[SupportsIndex] | None
    ignore_stops_between: tuple[str | int, str | int] | Iterable[tuple[str | int, str | int]] | None
    starts_inside: bool | None
    stop_regex: str | Iterable[str] | None
    max_match_length: int | None
    sections: Sections
    spans: bool


class StreamOptions(ReadingOptions, DecoderOptions, total=False):
    """All options of a stream that makes its own decoder; none of them is required.

    Each option is as for ReadingOptions or as for DecoderOptions.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.streams.options import StreamOptions
    >>> options: StreamOptions = {"max_tokens": 2, "return_token_ids": True}
    >>> [chunk.token_ids for chunk in iter_chunks([[1, 2, 3]], MockTokenizer(), **options)]
    [(1, 2)]
    """


def sorted_options(
    what: str, options: Mapping[str, Any], elsewhere: Mapping[str, str] = NOWHERE
) -> tuple[ReadingOptions, DecoderOptions]:
    """Return ``options`` by kind: options of reading, and options of decoding.

    Raises TypeError for an option that ``what`` does not have. ``elsewhere`` is as for
    ``unknown_option``.
    """
    reading, decoding = ReadingOptions.__annotations__, DecoderOptions.__annotations__
    for name in options:
        if name not in reading and name not in decoding:
            known = (*reading, *decoding, *_PARAMETERS, "idle_timeout")
            raise unknown_option(what, name, known, {"snapshot": _RESUME, **elsewhere})
    return (
        cast(ReadingOptions, {name: each for name, each in options.items() if name in reading}),
        cast(DecoderOptions, {name: each for name, each in options.items() if name in decoding}),
    )


_PARAMETERS = ("tokenizer", "conditions", "prompt_token_ids", "decoder", "on_stop")
"""The parameters of ``stream`` and ``iter_chunks`` that are not in StreamOptions."""

ONLY_ASYNC = MappingProxyType(
    {"idle_timeout": "only an asynchronous source can be interrupted: use stream() or wrap()"}
)
"""What to do about options that streams on plain sources do not have."""


def check_reading_options(
    what: str, maker: str, options: Mapping[str, Any], elsewhere: Mapping[str, str] = NOWHERE
) -> None:
    """Raise TypeError if one of ``options`` is not an option of reading.

    Args:
        what: the function or class that got the options, and a decoder.
        maker: the function that makes the decoder itself.
        options: the options.
        elsewhere: as for ``unknown_option``.
    """
    for name in options:
        if name not in ReadingOptions.__annotations__:
            known = (*ReadingOptions.__annotations__, "decoder", "on_stop", "idle_timeout")
            to_decoder = (*DecoderOptions.__annotations__, "conditions", "prompt_token_ids")
            told = f"pass it to the decoder, or write {maker}(source, tokenizer, {{}}=...)"
            elsewhere = {
                "tokenizer": f"pass it to the decoder, or write {maker}(source, tokenizer)",
                **dict.fromkeys(to_decoder, told),
                **elsewhere,
            }
            raise unknown_option(what, name, known, elsewhere)


def misplaced(what: str, given: object) -> TypeError:
    """Return the error for the positional argument ``given`` after the tokenizer."""
    parts = given if isinstance(given, (list, tuple)) else [given]
    if isinstance(given, StopConditions):
        name = "conditions"
    elif all(isinstance(part, str) for part in parts):
        name = "stop"
    elif ids_of(given) is not None:
        name = "prompt_token_ids"
    else:
        name = "option"
    call = f"{what}(source, tokenizer, {name}=...)"
    return TypeError(f"{what}() takes only the source and the tokenizer by position; write {call}")


_WITHOUT_STOPS = "use wrap(source, decoder), or TextIterator for a plain source"
"""What to do with a decoder that is not a StopSequenceDecoder."""


_RESUME = "write decoder=StopSequenceDecoder.restore(tokenizer, snapshot)"
"""What to do with a snapshot."""


def decoder_of(
    what: str,
    tokenizer: Decoder | None,
    conditions: StopConditions | None,
    prompt_token_ids: Iterable[SupportsIndex],
    decoder: StopSequenceDecoder | Machine | None,
    options: DecoderOptions,
) -> StopSequenceDecoder:
    """Return ``decoder`` if given; otherwise a new one from the other arguments.

    A tracer of a decoder is returned as it is: it has the methods of a decoder.

    Raises TypeError if both or neither are given, and the errors of StopConditions and
    StopSequenceDecoder.
    """
    given: dict[str, Any] = dict(options)
    if conditions is not None:
        given["conditions"] = conditions
    if decoder is None:
        return _made_decoder(what, tokenizer, prompt_token_ids, given)
    machine = decoder_behind(decoder)
    if not isinstance(machine, StopSequenceDecoder):
        hint = f"; {_WITHOUT_STOPS}" if isinstance(machine, DECODERS) else ""
        if isinstance(decoder, Mapping):
            hint = f"; {_RESUME}"
        raise TypeError(f"decoder must be a StopSequenceDecoder, not {decoder!r:.80}{hint}")
    if tokenizer is not None and tokenizer is not machine.tokenizer:
        given["tokenizer"] = tokenizer
    if prompt_token_ids is not NO_PROMPT:
        given["prompt_token_ids"] = prompt_token_ids
    if given:
        raise TypeError(f"{what} got a decoder and {', '.join(given)}; remove one of the two")
    return cast(StopSequenceDecoder, decoder)


def _made_decoder(
    what: str,
    tokenizer: Decoder | None,
    prompt_token_ids: Iterable[SupportsIndex],
    given: dict[str, Any],
) -> StopSequenceDecoder:
    if tokenizer is None:
        raise TypeError(f"{what} needs a tokenizer, or a decoder")
    if isinstance(decoder_behind(tokenizer), DECODERS):
        has_stops = isinstance(decoder_behind(tokenizer), StopSequenceDecoder)
        advice = "write decoder=..." if has_stops else _WITHOUT_STOPS
        raise TypeError(f"{what} got a decoder instead of a tokenizer; {advice}")
    is_source = hasattr(tokenizer, "__iter__") or hasattr(tokenizer, "__aiter__")
    if is_source and not isinstance(tokenizer, str) and not hasattr(tokenizer, "decode"):
        told = f"{what} takes the source first, then the tokenizer"
        raise TypeError(f"{told}; got the tokenizer {tokenizer!r:.80}")
    conditions = given.pop("conditions", None)
    decoding, ending = parted_options(given)
    if conditions is None:
        conditions = StopConditions(**ending)
    elif ending:
        raise TypeError(f"{what} got conditions, which have their own {', '.join(ending)}")
    return StopSequenceDecoder(tokenizer, conditions, prompt_token_ids, **decoding)


def parted_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split DecoderOptions into options of StopSequenceDecoder and of StopConditions."""
    names = {*DecodingOptions.__annotations__, "sections", "spans"}
    decoding = {name: value for name, value in options.items() if name in names}
    ending = {name: value for name, value in options.items() if name not in names}
    if decoding.get("sections") is not None and "starts_inside" in ending:
        decoding["starts_inside"] = ending["starts_inside"]
        if not ending.get("ignore_stops_between"):
            del ending["starts_inside"]
    return decoding, ending
