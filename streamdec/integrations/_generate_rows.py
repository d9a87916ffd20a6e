"""The rows of one ``generate`` call: their decoders, and what it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.conditions import StopConditions, StopOptions
from streamdec.core.stop_sequence_decoder import DecoderOptions, StopSequenceDecoder
from streamdec.streams.pool import DecoderPool


class Rows:
    """The decoders of the rows of one ``generate`` call; see GenerateStreamer."""

    def __init__(
        self,
        tokenizer: Any,
        conditions: StopConditions | Sequence[StopConditions] | None,
        options: DecoderOptions,
        *,
        return_token_ids: bool = False,
    ) -> None:
        self._pool = pool = DecoderPool(tokenizer, return_token_ids=return_token_ids)
        several: Any = conditions if isinstance(conditions, (list, tuple)) else [conditions]
        # An empty list is not conditions. Wrong arguments raise their errors at once.
        checked = [StopSequenceDecoder(pool.tokenizer, each, **options) for each in several or [[]]]
        self._conditions = [each.conditions for each in checked]
        self._decoding: Any = {
            name: value
            for name, value in options.items()
            if name not in StopOptions.__annotations__
            or (name == "starts_inside" and options.get("sections") is not None)
        }
        self.decoders: list[StopSequenceDecoder] = []
        self.errors: dict[int, Exception] = {}
        self._num_seen = 0
        self._last_seen: list[int] = []

    def conditions(self, num_rows: int) -> list[StopConditions]:
        """Return the conditions of each row. Those of a prompt's rows are equal."""
        times, left = divmod(num_rows, len(self._conditions))
        if left or not times:
            raise ValueError(
                f"got {len(self._conditions)} conditions for a batch of {num_rows} rows; expected "
                "one for all rows, one for each prompt, or one for each row"
            )
        return [each for each in self._conditions for _ in range(times)]

    def begin(self, prompts: list[list[int]], conditions: list[StopConditions]) -> None:
        """Begin after the prompts, which all have the same length."""
        self._num_seen = len(prompts[0])
        self._last_seen = [prompt[-1] if prompt else -1 for prompt in prompts]
        for row, (prompt, each) in enumerate(zip(prompts, conditions, strict=True)):
            self._pool.add(row, each, prompt, **self._decoding)
            self.decoders.append(self._pool[row])

    def __contains__(self, row: int) -> bool:
        return row in self._pool

    def new_ids(self, input_ids: Any) -> dict[int, list[int]]:
        """Return the new ids of each row that has not ended, of all ids so far."""
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
        self.errors |= self._pool.errors  # type: ignore[arg-type]  # all requests are rows
        return chunks

    def ended(self, input_ids: Any) -> Any:
        """Return which rows have ended, as a bool tensor on the device of ``input_ids``."""
        ended = [row not in self._pool for row in range(len(self.decoders))]
        return input_ids.new_tensor(ended).bool()

    def finish(self, row: int, reason: FinishReason) -> Chunk:
        """End a row. Return what it withheld."""
        chunk = self._pool.finish(row, reason)
        self.errors |= self._pool.errors  # type: ignore[arg-type]
        return chunk

    def finish_all(self, reason: FinishReason) -> dict[int, Chunk]:
        """End all rows that have not ended. Return what each withheld."""
        return {row: self.finish(row, reason) for row in [*self._pool]}


def setting(name: str, *configs: Any) -> Any:
    """Return the first value of ``name`` in ``configs`` that is not None."""
    values = (getattr(config, name, None) for config in configs)
    return next((value for value in values if value is not None), None)


def eos_ids(value: Any) -> frozenset[int]:
    """Return an ``eos_token_id`` of transformers (an id, several, or None) as a set."""
    conditions = StopConditions(eos_token_ids=() if value is None else value)
    return frozenset(conditions.eos_token_ids)
