"""The rows of one ``generate`` call: their decoders, and what it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.mistakes import not_conditions
from streamdec.streams.pool import DecoderPool

LIMITS = "MaxLengthCriteria", "MaxTimeCriteria"
"""Criteria of transformers that end all rows at once, for length."""


class Rows:
    """The decoders of the rows of one call of ``generate``.

    The arguments are those of GenerateStreamer.
    """

    def __init__(
        self,
        tokenizer: Any,
        conditions: StopConditions | Sequence[StopConditions] | None,
        options: Mapping[str, Any],
        *,
        return_token_ids: bool = False,
    ) -> None:
        self._decoding, self._conditions = _parted(conditions, options)
        self._pool = DecoderPool(tokenizer, return_token_ids=return_token_ids)
        StopSequenceDecoder(self._pool.tokenizer, **self._decoding)  # raises its errors at once
        self.decoders: list[StopSequenceDecoder] = []
        self.errors: dict[int, Exception] = {}
        self._num_seen = 0
        self._last_seen: list[int] = []

    def conditions(self, num_rows: int) -> list[StopConditions]:
        """Return the conditions of each row.

        All sequences of a prompt have the conditions of the prompt.
        """
        times, left = divmod(num_rows, len(self._conditions))
        if left or not times:
            raise ValueError(
                f"got {len(self._conditions)} conditions for a batch of {num_rows} rows; expected "
                "one for all rows, one for each prompt, or one for each row"
            )
        return [each for each in self._conditions for _ in range(times)]

    def begin(
        self,
        padded: list[list[int]],
        prompts: list[list[int]],
        conditions: list[StopConditions],
    ) -> None:
        """Begin after the prompts, as ``generate`` has them and without padding."""
        self._num_seen = len(padded[0])
        self._last_seen = [prompt[-1] if prompt else -1 for prompt in padded]
        for row, (prompt, each) in enumerate(zip(prompts, conditions, strict=True)):
            self._pool.add(row, each, prompt, **self._decoding)
            self.decoders.append(self._pool[row])

    @property
    def running(self) -> list[int]:
        """The rows that have not ended."""
        return [*self._pool]

    def __contains__(self, row: int) -> bool:
        return row in self._pool

    def new_ids(self, input_ids: Any) -> dict[int, list[int]]:
        """Return the new ids of each row that has not ended.

        ``input_ids`` are all ids so far.
        """
        start = max(self._num_seen - 1, 0)
        rows = input_ids[:, start:].tolist()
        if self._num_seen and [row[0] if row else None for row in rows] != self._last_seen:
            raise RuntimeError(
                f"the ids do not begin with the {self._num_seen} ids of the call before; use a new "
                "streamer or criterion for each call of generate, and no beam search"
            )
        new = [row[self._num_seen - start :] for row in rows]
        self._num_seen, self._last_seen = input_ids.shape[1], [row[-1] for row in rows]
        return {row: each for row, each in enumerate(new) if row in self._pool}

    def step(self, ids: dict[int, list[int]]) -> dict[int, Chunk]:
        """Decode new ids. Return the chunk of each row."""
        chunks = self._pool.step(ids)
        self._note_errors()
        return chunks

    def ended(self, input_ids: Any) -> Any:
        """Return which rows have ended, as a bool tensor on the device of ``input_ids``."""
        ended = [row not in self._pool for row in range(len(self.decoders))]
        return input_ids.new_tensor(ended).bool()

    def finish(self, row: int, reason: FinishReason) -> Chunk:
        """End a row. Return what it withheld."""
        chunk = self._pool.finish(row, reason)
        self._note_errors()
        return chunk

    def abort(self) -> None:
        """End all rows."""
        for row in self.running:
            self._pool.abort(row)

    def fail(self) -> None:
        """End all rows for an error. Their decoders stay as they were."""
        for row in self.running:
            self.decoders[row] = self._pool[row].fork()
            self._pool.finish(row, "error")

    def _note_errors(self) -> None:
        self.errors.update(
            (row, self._pool.errors[row])
            for row in range(len(self.decoders))
            if row in self._pool.errors
        )


def _parted(
    conditions: Any, options: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[StopConditions, ...]]:
    """Return the options of decoding, and one or several conditions."""
    ending: Any = {name: options[name] for name in StopOptions.__annotations__ if name in options}
    decoding = {name: value for name, value in options.items() if name not in ending}
    if decoding.get("sections") is not None and "starts_inside" in ending:
        decoding["starts_inside"] = ending["starts_inside"]
        if not ending.get("ignore_stops_between"):
            del ending["starts_inside"]
    if ending or conditions is None or isinstance(conditions, StopConditions):
        return decoding, (conditions_of(conditions, ending),)
    found = tuple(conditions) if isinstance(conditions, (list, tuple)) else ()
    if not found or not all(isinstance(each, StopConditions) for each in found):
        raise not_conditions(conditions)
    return decoding, found


# --- what generate was given ----------------------------------------------------------------------


class Heard:
    """Another stopping criterion, whose last answer is kept."""

    def __init__(self, criterion: Any) -> None:
        self._criterion = criterion
        self._answer: Any = None

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        answer = self._criterion(input_ids, scores, **kwargs)
        # transformers also accepts one answer for all rows.
        self._answer = input_ids.new_tensor([False] * len(input_ids)).bool() | answer
        return self._answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._criterion, name)  # by an eos_token_id generate knows that it must pad

    def ended(self) -> list[bool]:
        """Return for each row whether it has ended."""
        answer: list[bool] = self._answer.tolist()
        return answer


def heard(criterion: Any) -> Any:
    """Return ``criterion``, wrapped to keep its answers if it may end single rows."""
    return criterion if type(criterion).__name__ in LIMITS else Heard(criterion)


def unpadded(prompts: list[list[int]], mask: Any) -> list[list[int]]:
    """Return the prompts without the ids that the attention mask hides, if it fits.

    The mask is that of the prompts before each became several rows.
    """
    if mask is None or mask.ndim != 2 or len(prompts) % mask.shape[0]:
        return prompts
    if mask.shape[1] != len(prompts[0]):
        return prompts
    times, masks = len(prompts) // mask.shape[0], mask.tolist()
    return [[*compress(prompt, masks[row // times])] for row, prompt in enumerate(prompts)]


def setting(name: str, *configs: Any) -> Any:
    """Return the first value of ``name`` in ``configs`` that is not None."""
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)


def eos_ids(value: Any) -> frozenset[int]:
    """Return an ``eos_token_id`` of transformers (an id, several, or None) as a set."""
    conditions = StopConditions(eos_token_ids=() if value is None else value)
    return frozenset(conditions.eos_token_ids)
