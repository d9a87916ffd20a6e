"""Read token ids and finish reasons from the outputs of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import MappingProxyType
from typing import Any, SupportsIndex, cast, get_args

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.token_ids import as_sequence
from streamdec.errors import SourceError, warn
from streamdec.locks import cached_property
from streamdec.mistakes import hint
from streamdec.streams.shapes import IDS, NEW_IDS, Shape, no_shape, shape_of

ENDINGS: Mapping[FinishReason, Sequence[str]] = MappingProxyType({
    "stop": (
        "eos", "eos_token", "end_id", "stop_words", "end_turn", "stop_sequence",
        "tool_calls", "tool_use", "function_call",
    ),
    "length": ("max_tokens", "model_context_window_exceeded", "repetition"),
    "content_filter": ("refusal",),
})  # fmt: skip
"""Other words of engines and APIs for our reasons. The rest (cancelled, timeout) are an abort."""
NOT_ENDED = {"", "0", "false", "none", "null", "not_finished", "finish_reason_unspecified"}
"""What engines without a None for this field have in it while they generate."""

MAX_COMPARED = 8
"""The number of ids at the end of a cumulative output that are compared with the next output."""
MISSING: Any = object()

Ids = Sequence[SupportsIndex]
Parts = tuple[Sequence[Any], str | None, str | int | None]
"""The new ids of an output, the engine's finish reason, and the stop that the engine reports."""


def ending(word: str) -> FinishReason:
    """Return the FinishReason for an engine's ``word``, or for ``word: message``."""
    word = word.partition(":")[0].strip().lower()
    reasons: tuple[FinishReason, ...] = get_args(FinishReason)
    return next((each for each in reasons if word in (each, *ENDINGS.get(each, ()))), "abort")


def is_plain(value: object) -> bool:
    """Whether ``value`` is an iterable, and not a string, bytes, a mapping or a set."""
    return isinstance(value, Iterable) and not isinstance(
        value, (str, bytes, bytearray, Mapping, AbstractSet)
    )


def ids_of(value: Any) -> Ids | None:
    """Return the ids if ``value`` is an id, or a list, array or tensor; else None.

    Raises TypeError if it is an array of several dimensions.
    """
    if type(value) in (list, tuple):
        return cast(Ids, value)
    dimensions = getattr(value, "ndim", 0 if hasattr(value, "__index__") else 1)
    if dimensions == 0:
        return (value.tolist() if hasattr(value, "tolist") else value,)
    is_text = isinstance(value, (str, bytes, bytearray))
    if is_text or hasattr(value, IDS[0]) or hasattr(value, "_fields"):  # of a named tuple
        return None
    is_list = isinstance(value, Sequence) or hasattr(value, "tolist") or hasattr(value, "to_list")
    return as_sequence(value) if is_list else None


def checked_ids(value: Any) -> Ids:
    """Return ``value`` as a sequence of ids (not checked); or raise TypeError."""
    message = "token ids must be an id, a list, an array or a tensor"
    return as_sequence(value, message) if (ids := ids_of(value)) is None else ids


class GrowthWatch:
    """Warns once if outputs look cumulative, so that text would be repeated.

    They do if each output so far began with all ids of the output before and had more, and an
    output repeats two different ids. ``[5], [5, 6]`` may be new ids that repeat by chance, and
    equal tokens may be those of a line. It is no error, because it may be wrong.
    """

    def __init__(self, advice: str) -> None:
        self.is_over: bool = False
        """Whether it is known what the outputs are; then ``note`` need not be called."""
        self._advice = advice
        self._before: list[SupportsIndex] = []

    def note(self, ids: Ids) -> None:
        """Note the ids of the newest output, before its text is output."""
        before, self._before = self._before, list(ids)
        if not before:
            return
        grows = len(ids) > len(before) and self._before[: len(before)] == before
        if grows and before == before[:1] * len(before):
            return
        self.is_over, self._before = True, []
        if grows:
            warn(
                "an output began with all ids of the output before it, so the engine's outputs "
                f"seem to be cumulative and their text is repeated; {self._advice}"
            )


class OutputReader:
    """Reads the outputs of one source, in order; see :func:`~streamdec.wrap`.

    Args:
        ids: called with each output; returns its ids, None if it has none, or another output. The
            finish reason is read from the output itself.
        cumulative: as for ``wrap``.
        index: which sample of a request to read. It is compared with the sample's field ``index``,
            or with its place among the ``outputs``.
    """

    # Without defaults in the class, which would make these slower to read.
    num_seen: int
    """How many ids outputs of the engine had."""
    list_type: type | None
    """``list`` once lists are known to have new ids, so that ``parts`` need not be called."""
    shape_type: type | None
    """The type of the output whose shape was learnt."""
    shape: Shape
    """Returns the new ids of most outputs of ``shape_type``; None if ``parts`` must be called. Then
    add their number to ``num_seen``."""
    _last_seen: Ids = ()
    """The last ids of a cumulative output."""
    _has_met = _has_missed = False
    """Whether an output had the sample to read; and whether one had only other samples."""

    def __init__(
        self,
        ids: Callable[[Any], Any] | None = None,
        cumulative: bool = False,
        index: int | None = None,
    ) -> None:
        self.list_type = self.shape_type = None
        self.num_seen, self.shape = 0, no_shape
        self._ids = ids
        self._is_cumulative = cumulative
        self._index = index
        self._chosen = index
        """The index of the sample to read: the given one, or the first that was seen."""

    @cached_property
    def _watch(self) -> GrowthWatch:
        advice = "make the engine return only new ids, or give the stream cumulative=True"
        return GrowthWatch(advice)

    def check_end(self) -> None:
        """Raise SourceError if no output had the sample of ``index``."""
        if self._has_missed and not self._has_met:
            raise SourceError(
                f"no output of the source had the sample index={self._index}; samples are counted "
                "from 0"
            )

    def parts(self, output: Any) -> Parts:
        """Return the new ids, the finish reason and the stop; or raise SourceError."""
        reason, stop = None, None
        if self._ids is not None:
            reason, stop = _finish_in(_fields_of(output))
            output = self._ids(output)
            if output is None:
                return (), reason, stop
        ids = ids_of(output)
        if ids is None:
            return self._read_object(output, reason, stop)
        self._has_met = True
        return self._added(ids, reason), reason, stop

    def _read_object(
        self, output: Any, whole_reason: str | None, whole_stop: str | int | None
    ) -> Parts:
        """Return what an engine's own object or dict adds, possibly as a part of a whole."""
        if isinstance(output, Chunk):
            raise SourceError("the source yielded a Chunk: its text is already decoded, so use it")
        sample, is_alone = self._sample_in(output)
        if sample is MISSING:
            return (), None, None
        self._has_met = True
        get = _fields_of(sample)
        names = IDS if self._is_cumulative else (NEW_IDS, *IDS)
        there = [name for name in names if get(name, MISSING) is not MISSING]
        name = next((name for name in there if get(name, None) is not None), "".join(there[:1]))
        if name == NEW_IDS and not is_alone:
            raise SourceError(
                f"{NEW_IDS} of several samples repeats ids while another sample grows; "
                f"give cumulative=True to read {IDS[0]} instead"
            )
        reason, stop = _finish_in(get)
        if reason is None:
            reason, stop = whole_reason, whole_stop
        value = get(name, None) if name else None
        if value is None and (name or reason is not None):
            return (), reason, stop
        ids = None if value is None else ids_of(value)
        if ids is None:
            raise SourceError(self._complaint(output))
        if reason == "abort" and not self._is_cumulative:
            ids = ids[: self._most_new(get, len(ids))]
        ids = self._added(ids, reason)
        may_learn = self._ids is None and (self._is_cumulative or self._watch.is_over)
        if may_learn and name == there[0] and type(output) is not self.shape_type:
            self._learn(output, sample, name)
        return ids, reason, stop

    def _learn(self, output: Any, sample: Any, name: str) -> None:
        """Learn the shape of ``output``."""
        shape = shape_of(output, sample, name, self._chosen)

        def new_part(output: Any) -> Ids | None:
            ids = shape(output)
            return None if ids is None else self._new_part(ids)

        self.shape_type, self.shape = type(output), new_part if self._is_cumulative else shape

    def _sample_in(self, output: Any) -> tuple[Any, bool]:
        """Return the sample to read (or MISSING), and whether it is the only sample."""
        get = _fields_of(output)
        samples = get("outputs", None)
        if samples is None or not is_plain(samples):
            index = get("index", None)  # a method, if the output is a list
            if type(index) is not int or self._is_chosen(index):
                return output, True
            self._has_missed = True
            return MISSING, True
        count, found = 0, MISSING
        for count, sample in enumerate(samples, 1):
            index = _fields_of(sample)("index", None)
            if type(index) is not int:
                index = count - 1
            if self._is_chosen(index) and found is MISSING:
                found = sample
        if not count and any(get(name, None) is not None for name in (*IDS, NEW_IDS)):
            return output, True
        if found is MISSING and count:
            self._has_missed = True
        return found, count == 1

    def _is_chosen(self, index: int) -> bool:
        """Return whether ``index`` is that of the sample to read: as given, or the first."""
        if self._chosen is None:
            self._chosen = index
        if index == self._chosen or self._index is not None:
            return index == self._chosen
        raise SourceError(
            f"the source has several samples, such as {self._chosen} and {index}; "
            "choose one with index="
        )

    def _most_new(self, get: Get, num_given: int) -> int:
        """Return how many of the ids that come with an abort are new.

        SGLang (0.5.23) repeats the last id when it aborts a waiting request, but does not count it
        in ``completion_tokens``.
        """
        total = _fields_of(get("meta_info", None))("completion_tokens", None)
        return max(total - self.num_seen, 0) if type(total) is int else num_given

    def _complaint(self, output: Any) -> str:
        whose = "ids= returned" if self._ids is not None else "the source yielded"
        message = f"no token ids in {_kind_of(output):.200}, which {whose}; expected an id, a list "
        message += f"of ids, or an object with {', '.join((*IDS, NEW_IDS))} or outputs"
        if self._ids is None:
            message += "; for other objects pass ids=, a function that returns the ids"
        return message + hint("output", output)

    def _added(self, ids: Ids, reason: str | None) -> Ids:
        """Return the ids of an output that were not in earlier outputs."""
        if self._is_cumulative:
            ids = self._new_part(ids, at_end=reason is not None)
        elif not self._watch.is_over:
            self._watch.note(ids)
        elif self._ids is None:
            self.list_type = list
        self.num_seen += len(ids)
        return ids

    def _new_part(self, ids: Ids, *, at_end: bool = False) -> Ids:
        """Return the ids of a cumulative output that were not in the output before."""
        seen, last_seen = self.num_seen, self._last_seen
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
        self._last_seen = ids[-MAX_COMPARED:]
        return ids[seen:]


# --- pieces of text -------------------------------------------------------------------------------


class PieceReader(OutputReader):
    """Reads pieces of text as an OutputReader reads ids, for a TextStopDecoder."""

    def parts(self, output: Any) -> Parts:
        """Return the text, the finish reason and the stop of a string, a Chunk or None."""
        if output is None:
            return (), None, None
        if isinstance(output, str):
            return (output,), None, None
        if isinstance(output, Chunk):
            return (output.text,), *_finish_in(_fields_of(output))
        raise SourceError(
            "a stream on a TextStopDecoder reads pieces of text (strings, None or Chunks), "
            f"not {_kind_of(output):.200}"
        )


# --- fields ---------------------------------------------------------------------------------------

Get = Callable[[str, Any], Any]


def _fields_of(output: Any) -> Get:
    """Return the function from a name and a default to a field of ``output``."""
    return output.get if isinstance(output, Mapping) else partial(getattr, output)


def _kind_of(output: object) -> str:
    """Return a description of ``output`` without its text, because it may be logged."""
    if output is None or isinstance(output, (int, float)):
        return repr(output)
    kind = f"a {type(output).__name__}"
    if isinstance(output, (str, bytes)):
        return f"{kind} of length {len(output)}"
    names = output if isinstance(output, Mapping) else getattr(output, "__dict__", ())
    fields = sorted(name for name in map(str, names) if name[:1] != "_")
    return f"{kind} with the fields {fields}" if fields else kind


def _finish_in(get: Get) -> tuple[str | None, str | int | None]:
    """Return the finish reason and the stop in these fields; each may be None."""
    reason, stop = get("finish_reason", None), None
    if reason is None:
        reason = _fields_of(get("meta_info", None))("finish_reason", None)
    if reason is not None:
        stop = get("stop_reason", None)
    if isinstance(reason, Mapping):  # SGLang: {"type": reason}; Dynamo: {"error": message}
        stop = reason.get("matched", stop)
        named = (f"{word}: {message}" for word, message in reason.items())
        reason = reason.get("type", next(named, None))
    if reason is not None and not isinstance(reason, str):  # an Enum
        value = getattr(reason, "value", reason)
        reason = value if isinstance(value, str) else getattr(reason, "name", str(reason)).lower()
    if reason is None or reason.lower() in NOT_ENDED:
        return None, None
    return reason, stop if isinstance(stop, (str, int)) and not isinstance(stop, bool) else None
