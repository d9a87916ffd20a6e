"""The outputs of engines, read as token ids.

In: one *output* of a source, in the shape that its engine uses. Out: a :class:`Delta` with the new
ids and, at the end, the engine's finish reason. No engine is imported, and nothing is decoded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import AsyncGeneratorType, GeneratorType, MappingProxyType
from typing import Any, NamedTuple, SupportsIndex, cast, get_args

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.token_ids import check_dimensions
from streamdec.errors import SourceError, warn
from streamdec.streams.growth import GrowthWatch

__all__ = [
    "Delta",
    "OutputReader",
    "checked_ids",
    "ending",
    "ids_of",
    "is_plain",
    "not_a_source",
    "warn_of_ended",
]

ENDINGS: Mapping[str, FinishReason] = MappingProxyType(
    {
        **{reason: reason for reason in get_args(FinishReason)},
        "eos": "stop",
        "eos_token": "stop",
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_calls": "stop",
        "max_tokens": "length",
    }
)
"""Finish reasons of engines, and ours. Any other finish reason (cancelled, timeout) is an abort,
because neither the model nor the limit ended the stream."""

IDS = ("token_ids", "output_ids")
"""The fields in which engines keep ids: vLLM and Dynamo, then SGLang."""
NEW_IDS = "token_ids_diff"
"""The field in which TensorRT-LLM keeps new ids; its ``token_ids`` are all ids so far."""

MAX_COMPARED = 8
"""The number of ids at the end of a cumulative output that are compared with the next output."""
MAX_TYPES = 16
"""The most types of outputs whose kind is remembered."""


Get = Callable[[Any, str, Any], Any]
"""Returns a field of an object: the object, the field's name, and a default."""


class Delta(NamedTuple):
    """The new ids of one output, and the finish reason if it is the last output.

    Streams also accept it as an output of an engine.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.streams.outputs import Delta
    >>> engine = [Delta([1, 2]), Delta([3], finish_reason="max_tokens")]
    >>> [(chunk.text, chunk.finish_reason) for chunk in iter_chunks(engine, MockTokenizer())]
    [('Hello world', None), (' test', None), ('', 'length')]
    """

    token_ids: Sequence[SupportsIndex] = ()
    """The new ids."""
    finish_reason: str | None = None
    """The engine's own finish reason; None if it has not ended."""
    stop_reason: str | int | None = None
    """The stop that the engine reports; None without one."""


def ending(word: str) -> FinishReason:
    """Return the FinishReason for an engine's ``word``.

    A message may follow the word after a colon.
    """
    return ENDINGS.get(word.partition(":")[0].strip().lower(), "abort")


def ids_of(value: Any) -> Sequence[SupportsIndex] | None:
    """Return the ids if ``value`` is an id, or a list, array or tensor; else None.

    Raises TypeError if it is an array of several dimensions.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return cast(Sequence[SupportsIndex], value)
    if hasattr(value, "tolist"):
        if getattr(value, "ndim", 1) > 1:
            check_dimensions(value)
        listed: Any = value.tolist()
        return listed if isinstance(listed, list) else (listed,)
    if hasattr(value, "__index__"):
        return (value,)
    if hasattr(value, "to_list") and not hasattr(value, IDS[0]):  # a column of Polars
        return cast(Sequence[SupportsIndex], value.to_list())
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
    if not is_list or hasattr(value, IDS[0]):
        return None
    return value if isinstance(value, (list, tuple)) else [*value]  # a deque cannot be sliced


def checked_ids(value: Any) -> Sequence[SupportsIndex]:
    """Return ``value`` as a sequence of ids.

    Raises TypeError if ``value`` cannot hold ids. The decoder checks each id later.
    """
    ids = ids_of(value)
    if ids is None and is_plain(value):
        return list(value)
    if ids is None:
        raise TypeError(f"token ids must be an id, a list, an array or a tensor, not {value!r:.80}")
    return ids


def is_plain(value: object) -> bool:
    """Whether ``value`` is an iterable, and not a string, bytes, a mapping or a set."""
    if type(value) is list:
        return True
    return isinstance(value, Iterable) and not isinstance(
        value, (str, bytes, bytearray, Mapping, AbstractSet)
    )


def not_a_source(source: Any, *, is_async: bool) -> TypeError:
    """Return the error for a ``source`` that a stream cannot read.

    Closes ``source`` if it is a coroutine, so that Python does not warn too.
    """
    if inspect.isawaitable(source):
        if inspect.iscoroutine(source):
            source.close()
        hint = ": await it, and pass its result"
    elif isinstance(source, (str, bytes)):
        hint = ": expected token ids, or a list of strings for a TextStopDecoder"
    elif hasattr(source, "__aiter__"):
        hint = ": use stream() or wrap() for an asynchronous source"
    elif callable(source):
        hint = ": call it, and pass its result"
    elif hasattr(source, "get") and hasattr(source, "put"):
        hint = ": put the ids into a TokenQueue" if is_async else ": write iter(queue.get, None)"
    else:
        hint = ""
    kind = "(async) iterable" if is_async else "iterable"
    return TypeError(f"source must be an {kind} of outputs, not {source!r:.80}{hint}")


def warn_of_ended(source: object) -> None:
    """Warn if ``source`` is a generator that has ended: its text would be empty."""
    if (isinstance(source, GeneratorType) and source.gi_frame is None) or (
        isinstance(source, AsyncGeneratorType) and source.ag_frame is None
    ):
        warn(
            "the source is a generator that has ended, so there is no text; call its function "
            "again for each stream"
        )


class OutputReader:
    """Reads the outputs of one source, in order.

    An output is an id, several ids (a list, an array, a tensor), or an engine's own object or dict.
    Such an object, or one of its ``outputs``, has ids in the field ``token_ids``, ``output_ids`` or
    ``token_ids_diff``. Its finish reason is in the field ``finish_reason``, there or in
    ``meta_info``; the stop that matched is in ``stop_reason`` (SGLang: ``matched``).

    Warns (StreamdecWarning) if outputs look cumulative and ``cumulative`` was not given.

    Args:
        ids: called with each output; returns its ids, None if it has none, or another output as
            above. The finish reason is read from the output itself.
        cumulative: whether an output has all ids since the beginning instead of only the new ids.
        index: which sample of a request to read, if the request has several. It is compared with
            the sample's field ``index``, or with its place among the ``outputs``.

    **Memory.** A count, the last eight ids of a cumulative output, and the ids of the last output
    while every output so far began with all ids of the previous one.

    >>> from streamdec.streams.outputs import OutputReader
    >>> vllm = OutputReader(cumulative=True)
    >>> vllm.read({"outputs": [{"index": 0, "token_ids": [5, 6]}]})
    Delta(token_ids=[5, 6], finish_reason=None, stop_reason=None)
    >>> vllm.read({"outputs": [{"index": 0, "token_ids": [5, 6, 7], "finish_reason": "length"}]})
    Delta(token_ids=[7], finish_reason='length', stop_reason=None)
    """

    def __init__(
        self,
        *,
        ids: Callable[[Any], Any] | None = None,
        cumulative: bool = False,
        index: int | None = None,
    ) -> None:
        self._ids = ids
        self._is_cumulative = cumulative
        self._index = index
        self._chosen = index
        """The index of the sample to read: the given one, or the first that was seen."""
        self._num_seen = 0
        self._has_met = False
        """Whether an output had the sample to read."""
        self._has_missed = False
        """Whether an output had only other samples than that of ``index``."""
        self._num_decoded = 0
        """How many chunks with text and without ids were read before the first ids."""
        self._last_seen: Sequence[SupportsIndex] = ()
        self.list_types: tuple[type, ...] = ()
        """The types of outputs that are known to be lists of new ids, so that ``parts`` need not be
        called."""
        self._gets: dict[type, Get] = {}
        """For each type of the engine's outputs and samples, how to get a field."""
        self._engine_type: type | None = None
        """The type of the last output that was an engine's own object or dict."""
        self.growth = GrowthWatch(
            "make the engine return only new ids, or give the stream cumulative=True"
        )
        """Warns if outputs look cumulative and ``cumulative`` was not given."""
        self.advice = (
            "If an output of the source has more than ids, pass ids= to the stream: a function "
            "that returns the ids of an output"
        )
        """The note on an error of an id that is not an integer."""

    def read(self, output: Any) -> Delta:
        """Return the ids and the finish reason that ``output`` adds.

        Raises SourceError for an output without ids, for a cumulative output that does not begin
        with the ids before it, for a second sample without ``index``, and for ``token_ids_diff`` of
        several samples without ``cumulative``. Errors of ``ids`` are raised unchanged.

        >>> from streamdec import SourceError
        >>> from streamdec.streams.outputs import OutputReader
        >>> try:
        ...     OutputReader().read({"text": "Hi"})
        ... except SourceError as error:
        ...     print(str(error)[:60])
        no token ids in a dict of ['text'], which the source yielded
        """
        return Delta(*self.parts(output))

    def parts(self, output: Any) -> tuple[Sequence[SupportsIndex], str | None, str | int | None]:
        """Return the fields of ``read(output)`` as a plain tuple, which is faster.

        Raises SourceError as ``read`` does.
        """
        reason, stop = None, None
        if self._ids is not None:
            reason, stop = self._finish_of(output, self._get_of(output))
            output = self._ids(output)
            if output is None:
                return (), reason, stop
        if type(output) is not self._engine_type:
            ids = _ids_in_output(output)
            if ids is not None:
                self._has_met = True
                if self._is_cumulative:
                    ids = self._new_part(ids, at_end=reason is not None)
                elif not self.growth.is_over:
                    self._watch(ids)
                return ids, reason, stop
            self._engine_type = type(output)
        return self._parts_of(output, reason, stop)

    def check_end(self) -> None:
        """Raise SourceError if no output had the sample of ``index``."""
        if self._has_missed and not self._has_met:
            raise SourceError(
                f"no output of the source had the sample index={self._index}; samples are counted "
                "from 0"
            )

    # --- an engine's own outputs

    def _parts_of(
        self, output: Any, whole_reason: str | None, whole_stop: str | int | None
    ) -> tuple[Sequence[SupportsIndex], str | None, str | int | None]:
        """Return what an object or dict adds.

        ``whole_reason`` and ``whole_stop`` are those of the output that contains ``output``.
        """
        meant, get, is_alone = self._meant_in(output)
        if get is None:
            return (), None, None
        self._has_met = True
        ids = MISSING if self._is_cumulative else get(meant, NEW_IDS, MISSING)
        if ids is MISSING:
            for name in IDS:
                ids = get(meant, name, MISSING)
                if ids is not MISSING:
                    break
        elif not is_alone:
            raise SourceError(
                f"{NEW_IDS} of several samples repeats ids while another sample grows; "
                f"give cumulative=True to read {IDS[0]} instead"
            )
        reason, stop = self._finish_of(meant, get)
        if reason is None:
            reason, stop = whole_reason, whole_stop
        if ids is MISSING and reason is None:
            raise SourceError(self._complaint(output))
        if ids is MISSING or ids is None:
            return (), reason, stop
        found = ids if type(ids) is list else _ids_in_output(ids)
        if found is None or (not found and self._is_decoded(output)):
            raise SourceError(self._complaint(output))
        if self._is_cumulative:
            return self._new_part(found, at_end=reason is not None), reason, stop
        if not self.growth.is_over:
            self._watch(found)
        if reason == "abort":
            found = found[: self._most_new(meant, get, len(found))]
        self._num_seen += len(found)
        return found, reason, stop

    def _meant_in(self, output: Any) -> tuple[Any, Get | None, bool]:
        """Return the sample to read, its Get, and whether it is the only sample.

        The second is None if ``output`` does not have this sample.
        """
        get = self._gets.get(type(output)) or self._get_of(output)
        samples = get(output, "outputs", None)
        if samples is None or not (type(samples) is list or is_plain(samples)):
            index = get(output, "index", None)  # a method, if the output is a list
            if type(index) is not int or index == self._chosen or self._choose(index):
                return output, get, True
            self._has_missed = True
            return None, None, True
        count = 0
        meant, meant_get = None, None
        for sample in samples:
            get = self._gets.get(type(sample)) or self._get_of(sample)
            index = get(sample, "index", None)
            if type(index) is not int:
                index = count
            if (index == self._chosen or self._choose(index)) and meant_get is None:
                meant, meant_get = sample, get
            count += 1
        if meant_get is None and count:
            self._has_missed = True
        return meant, meant_get, count == 1

    def _get_of(self, output: Any) -> Get:
        """Return the function that returns a field of ``output``."""
        kind = type(output)
        get = self._gets.get(kind)
        if get is None:
            if len(self._gets) > MAX_TYPES:
                self._gets.clear()
            get = getattr
            if isinstance(output, Mapping):
                get = getattr(kind, "get", _get_by_method)
            self._gets[kind] = get
        return get

    def _choose(self, index: int) -> bool:
        """Return whether to read the sample with ``index``, which is not the chosen one.

        It becomes the chosen one if none is chosen yet. Raises SourceError if another sample was
        chosen because it came first.
        """
        if self._index is not None:
            return False
        if self._chosen is None:
            self._chosen = index
            return True
        raise SourceError(
            f"the source has several samples, such as {self._chosen} and {index}; "
            "choose one with index="
        )

    def _finish_of(self, output: Any, get: Get) -> tuple[str | None, str | int | None]:
        """Return the engine's finish reason and its stop; None, None if it has not ended."""
        reason = get(output, "finish_reason", None)
        if reason is None:
            about = get(output, "meta_info", None)
            if about is not None:
                reason = self._get_of(about)(about, "finish_reason", None)
        if reason is None or reason == "":  # protobuf has no None
            return None, None
        return _finish(reason, get(output, "stop_reason", None))

    def _is_decoded(self, output: Any) -> bool:
        """Whether ``output``, which has no ids, is a chunk of a stream without ids.

        In a stream with ids, only the first chunk with text may have none: its ids may belong to
        the next chunk.
        """
        if not isinstance(output, Chunk) or not output.text or self._num_seen:
            return False
        self._num_decoded += 1
        return self._num_decoded > 1 or output.finish_reason is not None

    def _most_new(self, output: Any, get: Get, num_given: int) -> int:
        """Return how many of the ids that come with an abort are new.

        SGLang (0.5.23) repeats the last id when it aborts a waiting request, but does not count it
        in ``completion_tokens``.
        """
        about = get(output, "meta_info", None)
        total = None if about is None else self._get_of(about)(about, "completion_tokens", None)
        return max(total - self._num_seen, 0) if type(total) is int else num_given

    def _complaint(self, output: Any) -> str:
        whose = "ids= returned" if self._ids is not None else "the source yielded"
        found = f"no token ids in {_kind_of(output):.200}, which {whose}; expected"
        if isinstance(output, Chunk):
            return f"{found} the ids of an engine. The text of a Chunk is already decoded: use it"
        hint = ""
        if self._ids is None:
            hint = ". For other objects pass ids=, a function that returns the ids"
        if isinstance(output, str):
            hint += ". For text use wrap(source, TextStopDecoder(...))"
        known = ", ".join((*IDS, NEW_IDS))
        return f"{found} an id, a list of ids, or an object with {known} or outputs{hint}"

    # --- cumulative outputs

    def _watch(self, ids: Sequence[SupportsIndex]) -> None:
        """Warn if outputs look cumulative, although ``cumulative`` was not given."""
        self.growth.note(ids)
        if self.growth.is_over and self._ids is None:
            self.list_types = list, tuple

    def _new_part(self, ids: Sequence[SupportsIndex], *, at_end: bool) -> Sequence[SupportsIndex]:
        """Return the ids of a cumulative output that were not in the output before."""
        seen, last_seen = self._num_seen, self._last_seen
        if len(ids) < seen and at_end:
            return ()  # an engine may remove the stop's ids at the end
        known = ids[seen - len(last_seen) : seen]
        if list(known) != list(last_seen):
            raise SourceError(
                "cumulative=True expects each output to begin with all earlier ids: after an "
                f"output of length {seen} that ends with {list(last_seen)}, an output of length "
                f"{len(ids)} has {list(known)} in their place. If outputs have only new ids, "
                "remove cumulative=True"
            )
        self._num_seen = len(ids)
        self._last_seen = ids[-MAX_COMPARED:]
        return ids[seen:]


def _kind_of(output: object) -> str:
    """Return a description of ``output`` without its text, because it may be logged."""
    if isinstance(output, (str, bytes)):
        return f"a {type(output).__name__} of length {len(output)}"
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} of {sorted(map(str, output))}"
    if output is None or isinstance(output, (int, float)):
        return repr(output)
    fields = sorted(name for name in getattr(output, "__dict__", ()) if name[:1] != "_")
    return f"a {type(output).__name__}" + (f" with the fields {fields}" if fields else "")


MISSING: Any = object()


def _get_by_method(output: Any, name: str, default: Any) -> Any:
    """Return a field of a mapping whose class has no ``get``: a proxy."""
    return output.get(name, default)


def _ids_in_output(value: Any) -> Sequence[SupportsIndex] | None:
    """Return ``ids_of(value)``.

    Raises SourceError for an array of several dimensions.
    """
    try:
        return ids_of(value)
    except TypeError as error:
        raise SourceError(f"an output of the source cannot be read: {error}") from None


def _finish(reason: Any, stop: Any) -> tuple[str | None, str | int | None]:
    """Return a finish reason and a stop, as an engine gives them, as plain values."""
    if isinstance(reason, Mapping):  # SGLang: {"type": reason}; Dynamo: {"error": message}
        stop = reason.get("matched", stop)
        named = (f"{word}: {message}" for word, message in reason.items())
        reason = reason.get("type", next(named, None))
        if reason is None or reason == "":
            return None, None
    if not isinstance(reason, str):  # an Enum
        value = getattr(reason, "value", reason)
        reason = value if isinstance(value, str) else getattr(reason, "name", str(reason)).lower()
    return reason, stop if isinstance(stop, (str, int)) and not isinstance(stop, bool) else None
