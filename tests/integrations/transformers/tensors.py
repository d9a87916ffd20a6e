"""What streamers and criteria use of a tensor, without torch: for tests that need no model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import numpy as np

__all__ = ["IdleModel", "Tensor"]


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

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: Any) -> Tensor:
        return Tensor(self._array[place])

    def new_tensor(self, values: Any) -> Self:
        """A tensor of ``values``."""
        return type(self)(values)

    def bool(self) -> Tensor:
        """The values as bools."""
        return Tensor(self._array, bool)


class IdleModel:
    """A model whose ``generate`` passes the prompts to the streamer, and generates nothing."""

    def __init__(self, num_rows: int = 1) -> None:
        self.prompts = Tensor([[0]] * num_rows)
        self.config = SimpleNamespace(is_encoder_decoder=False)
        self.generation_config = SimpleNamespace(eos_token_id=2)

    def generate(self, *args: Any, streamer: Any, **kwargs: Any) -> Tensor:
        """As of transformers."""
        streamer.put(self.prompts)
        streamer.end()
        return self.prompts
