"""The recorded outputs, as objects or dicts, as their engine gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Recorded:
    """One stream of one engine."""

    name: str
    outputs: list[Any]
    options: dict[str, Any]
    """For a Reader."""
    token_ids: list[int]
    """What was generated."""
    finish_reason: str
    stop_reason: int | str | None


def recorded() -> Iterator[Recorded]:
    """All streams of all files."""
    for path in sorted(DATA.glob("*.json")):
        content = json.loads(path.read_text("utf-8"))
        for stream in content["streams"]:
            outputs = stream["outputs"]
            if content["shape"] == "objects":
                outputs = [_object(output) for output in outputs]
            yield Recorded(
                f"{path.stem}: {stream['name']}",
                outputs,
                stream["options"],
                stream["token_ids"],
                stream["finish_reason"],
                stream["stop_reason"],
            )


def _object(value: Any) -> Any:
    """Dicts as objects with attributes."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _object(part) for name, part in value.items()})
    return [_object(part) for part in value] if isinstance(value, list) else value
