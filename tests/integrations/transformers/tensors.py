"""What streamers and criteria use of a tensor and a model, without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Self

import numpy as np


class Tensor:
    """Ids, or answers, in the shape of a tensor."""

    def __init__(self, values: Any, kind: type = int) -> None:
        self._array: np.ndarray[Any, Any] = np.asarray(values, dtype=kind)

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a tensor."""
        return tuple(self._array.shape)

    def tolist(self) -> Any:
        """Nested lists."""
        return self._array.tolist()

    def __getitem__(self, place: Any) -> Tensor:
        return Tensor(self._array[place])

    def new_tensor(self, values: Any) -> Self:
        """A tensor of ``values``."""
        return type(self)(values)

    def bool(self) -> Tensor:
        """The values as bools."""
        return Tensor(self._array, bool)


class Model:
    """A model whose ``generate`` calls a streamer as that of transformers does.

    After a prompt of one token, each row says its ids, and then ``EOS``.
    """

    EOS = 2

    def __init__(self, *rows: Sequence[int]) -> None:
        self.rows = rows
        self.at_step: Callable[[int], object] = bool
        """Called with the number of the token that is about to be generated."""
        self.config = SimpleNamespace(is_encoder_decoder=False)
        self.generation_config = SimpleNamespace(eos_token_id=self.EOS)

    def generate(self, *, streamer: Any, stopping_criteria: Any = (), **_: Any) -> Tensor:
        """As of transformers."""
        ids = [[0] for _ in self.rows]
        streamer.put(Tensor(ids))
        for step in range(max(map(len, self.rows)) + 1):
            self.at_step(step)
            for row, said in zip(ids, self.rows, strict=True):
                row.append([*said, *[self.EOS] * (step + 1)][step])
            if any(all(each(Tensor(ids)).tolist()) for each in stopping_criteria):
                break
        streamer.end()
        return Tensor(ids)
