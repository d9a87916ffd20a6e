"""What engines give, read as token ids.

In: one *output* of a source, in whatever shape its engine has. Out: a :class:`Delta`, which has the
ids that are new and, with the last of them, why the engine ended. Nothing is imported from any
engine, and nothing is decoded here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple, SupportsIndex, cast

from streamdec.chunks import FinishReason
from streamdec.errors import SourceError

__all__ = ["Delta", "Reader", "checked_ids", "ending", "ids_of", "is_plain"]

ENDINGS: Mapping[str, FinishReason] = MappingProxyType(
    {
        "stop": "stop",
        "eos": "stop",
        "eos_token": "stop",
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_calls": "stop",
        "length": "length",
        "max_tokens": "length",
        "abort": "abort",
        "error": "error",
    }
)
"""Words of engines, and what they are in ours. Any other one (cancelled, timeout, content_filter)
says that neither the model nor the limit ended the stream: it is an abort."""

IDS = ("token_ids", "output_ids")
"""Where engines keep ids, those of vLLM and Dynamo before those of SGLang."""
NEW_IDS = "token_ids_diff"
"""Where TensorRT-LLM keeps the new ones; its ``token_ids`` are all so far."""

MAX_COMPARED = 8
"""How many ids at the end of a cumulative output are looked for in the next one."""


class Delta(NamedTuple):
    """What one output of a source adds; itself an output that every stream takes.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.sources import Delta
    >>> engine = [Delta([1, 2]), Delta([3], finish_reason="max_tokens")]
    >>> [(chunk.text, chunk.finish_reason) for chunk in iter_chunks(engine, MockTokenizer())]
    [('Hello world', None), (' test', None), ('', 'length')]
    """

    token_ids: Sequence[SupportsIndex] = ()
    """The new ids."""
    finish_reason: str | None = None
    """Why the engine ended, in its own word; None while it goes on."""
    stop_reason: str | int | None = None
    """The stop that the engine saw, if it names one."""


def ending(word: str) -> FinishReason:
    """An engine's word for its end in ours. After a colon comes a message: ``error: no memory``."""
    return ENDINGS.get(word.partition(":")[0].strip().lower(), "abort")


def ids_of(value: Any) -> Sequence[SupportsIndex] | None:
    """The ids, if ``value`` is one, or a list, array or tensor of them; None if it is not."""
    kind = type(value)
    if kind is list or kind is tuple:
        return cast(Sequence[SupportsIndex], value)
    if hasattr(value, "tolist"):
        listed: Any = value.tolist()
        return listed if isinstance(listed, list) else (listed,)
    if hasattr(value, "__index__"):
        return (value,)
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
    if not is_list or hasattr(value, IDS[0]):
        return None
    return value if isinstance(value, (list, tuple)) else [*value]  # a deque cannot be sliced


def checked_ids(value: Any) -> Sequence[SupportsIndex]:
    """The ids that a caller gave; TypeError if there are none. Each is for a machine to judge."""
    ids = ids_of(value)
    if ids is None and is_plain(value):
        return list(value)
    if ids is None:
        raise TypeError(f"token ids come as an id, a list, an array or a tensor, not {value!r:.80}")
    return ids


def is_plain(value: object) -> bool:
    """Whether ``value`` can be iterated over, and in an order that means something."""
    return isinstance(value, Iterable) and not isinstance(
        value, (str, bytes, bytearray, Mapping, AbstractSet)
    )


class Reader:
    """Reads the outputs of one source, in their order.

    An output is an id, or ids (a list, an array, a tensor), or an engine's own object or dict: its
    ids are under ``token_ids``, ``output_ids`` or ``token_ids_diff``, in the output itself or in
    one of its ``outputs``; its end is under ``finish_reason``, there or in ``meta_info``.

    Args:
        ids: called with each output; gives its ids, or None where the output has none (why the
            engine ended is then read from the output), or anything else that is an output as above.
        cumulative: an output has all ids since the beginning, not only the new ones.
        index: which sample of a request is read, where there are several; by the ``index`` that an
            engine gives it, or else by its place among the ``outputs``.

    Held are a count, and of cumulative outputs the last eight ids.

    >>> from streamdec.sources import Reader
    >>> vllm = Reader(cumulative=True)
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
        self._first_index: int | None = None
        self._num_seen = 0
        self._last_seen: Sequence[SupportsIndex] = ()

    def read(self, output: Any) -> Delta:
        """What ``output`` adds.

        Raises SourceError for an output in which no ids are found; for a cumulative one that does
        not only grow; and for a second sample, where ``index`` does not say which is meant. What
        ``ids`` raises comes as it is.

        >>> from streamdec import SourceError
        >>> from streamdec.sources import Reader
        >>> try:
        ...     Reader().read({"text": "Hi"})
        ... except SourceError as error:
        ...     print(str(error)[:54])
        no token ids in what the source gave, a dict of ['text
        """
        reason, stop = None, None
        if self._ids is not None:
            reason, stop = _finish_of(output)
            output = self._ids(output)
            if output is None:
                return Delta((), reason, stop)
        ids = ids_of(output)
        if ids is None:
            return self._delta_of(output, reason, stop)
        return Delta(self._new_part(ids, at_end=reason is not None), reason, stop)

    # --- an engine's own outputs

    def _delta_of(
        self, output: Any, whole_reason: str | None, whole_stop: str | int | None
    ) -> Delta:
        """What an object or dict adds; it may be a part of an output that has said the end."""
        samples = _field(output, "outputs")
        placed = [*enumerate(samples)] if is_plain(samples) else [(None, output)]
        meant = [sample for place, sample in placed if self._is_meant(sample, place)]
        if not meant:
            return Delta()
        ids = self._ids_in(meant[0], is_alone=len(placed) == 1)
        reason, stop = _finish_of(meant[0])
        if reason is None:
            reason, stop = whole_reason, whole_stop
        if ids is MISSING and reason is None:
            raise SourceError(self._complaint(output))
        if ids is MISSING or ids is None:
            return Delta((), reason, stop)
        found = ids_of(ids)
        if found is None:
            raise SourceError(self._complaint(output))
        new = self._new_part(found, at_end=reason is not None)
        if not self._is_cumulative:
            if reason == "abort":
                new = new[: self._most_new(meant[0], len(new))]
            self._num_seen += len(new)
        return Delta(new, reason, stop)

    def _most_new(self, sample: Any, num_given: int) -> int:
        """How many of the ids that come with an abort are new.

        SGLang (0.5.23) gives the last one a second time where it aborts a request that waits; its
        own count tells.
        """
        total = _field(_field(sample, "meta_info"), "completion_tokens")
        return max(total - self._num_seen, 0) if type(total) is int else num_given

    def _is_meant(self, sample: Any, place: int | None) -> bool:
        """Whether ``sample``, which has a ``place`` if it is one of a list, is the one to read."""
        given = _field(sample, "index")
        index: int | None = given if type(given) is int else place  # it may be a list's method
        if index is None:
            return True
        if self._index is not None:
            return index == self._index
        if self._first_index is None:
            self._first_index = index
        if index == self._first_index:
            return True
        raise SourceError(
            f"the source gives several samples, {self._first_index} and {index}: "
            "index= must say which one is read"
        )

    def _ids_in(self, sample: Any, *, is_alone: bool) -> Any:
        """What is under the first of the known names; MISSING if none is there."""
        names = IDS if self._is_cumulative else (NEW_IDS, *IDS)
        name = next((name for name in names if _field(sample, name, MISSING) is not MISSING), None)
        if name == NEW_IDS and not is_alone:
            raise SourceError(
                f"{NEW_IDS} of several samples repeats what was new while another one grows: "
                f"cumulative=True reads {IDS[0]} instead"
            )
        return MISSING if name is None else _field(sample, name)

    def _complaint(self, output: Any) -> str:
        what = f"a dict of {sorted(map(str, output))}" if isinstance(output, dict) else repr(output)
        whose = "ids= gave" if self._ids is not None else "the source gave"
        return (
            f"no token ids in what {whose}, {what:.200}; expected an id, ids, or an output with "
            f"{', '.join((*IDS, NEW_IDS))} or outputs; ids= can say where they are"
        )

    # --- cumulative outputs

    def _new_part(
        self, ids: Sequence[SupportsIndex], *, at_end: bool = False
    ) -> Sequence[SupportsIndex]:
        if not self._is_cumulative:
            return ids
        seen, last_seen = self._num_seen, self._last_seen
        if len(ids) < seen and at_end:
            return ()  # an engine may take back its stop
        known = ids[seen - len(last_seen) : seen]
        if list(known) != list(last_seen):
            raise SourceError(
                f"cumulative=True, but an output does not begin with the {seen} ids before it: "
                f"it has {len(ids)}, and {list(known)} where {list(last_seen)} were"
            )
        self._num_seen = len(ids)
        self._last_seen = ids[-MAX_COMPARED:]
        return ids[seen:]


MISSING: Any = object()


def _field(output: Any, name: str, default: Any = None) -> Any:
    """A field of an object or a dict."""
    if isinstance(output, Mapping):
        return output.get(name, default)
    return getattr(output, name, default)


def _finish_of(sample: Any) -> tuple[str | None, str | int | None]:
    """Why the engine ended, in its own word, and the stop that it saw; None, None if it goes on."""
    reason = _field(sample, "finish_reason")
    if reason is None:
        reason = _field(_field(sample, "meta_info"), "finish_reason")
    stop = _field(sample, "stop_reason")
    if isinstance(reason, Mapping):  # SGLang's has a type; Dynamo's is {"error": what went wrong}
        stop = reason.get("matched", stop)
        named = (f"{word}: {message}" for word, message in reason.items())
        reason = reason.get("type", next(named, None))
    if reason is None or reason == "":  # as protobuf says None
        return None, None
    if not isinstance(reason, str):  # an Enum
        value = getattr(reason, "value", reason)
        reason = value if isinstance(value, str) else getattr(reason, "name", str(reason)).lower()
    return reason, stop if isinstance(stop, (str, int)) and not isinstance(stop, bool) else None
