"""Warnings that an object causes only once."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence

import pytest

from streamdec import DecodeStream
from streamdec.core.warn_once import WarnOnce


class Bare:
    """Takes no weak references; has three tokens."""

    __slots__ = ()

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "".join("abc"[token_id] for token_id in token_ids)

    def piece(self, token_id: int) -> str | None:
        return "abc"[token_id] if token_id < 3 else None


class Equal:
    """Equal to all others of its kind, and without a hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Bare, Equal])
def test_each_message_is_logged_once_for_each_object(kind: type) -> None:
    once, one, other = WarnOnce(), kind(), kind()
    assert [once.first(one, "a"), once.first(one, "a"), once.first(one, "b")] == [True, False, True]
    assert [once.first(other, "a"), once.first(other, "a")] == [True, False]


@pytest.mark.parametrize("kind", [Bare, Equal])
def test_a_freed_object_is_not_mistaken_for_another(kind: type) -> None:
    """Each may have the ``id`` of the one before."""
    once = WarnOnce()
    assert all(once.first(kind()) for _ in range(100))
    gc.collect()
    assert len(once) <= 8


def test_few_objects_without_weak_references_are_kept() -> None:
    once, objects = WarnOnce(most_kept=2), [Bare() for _ in range(3)]
    assert all(once.first(each) for each in objects)
    assert [once.first(each) for each in objects[1:]] == [False, False]
    assert once.first(objects[0]), "said again rather than not at all"
    assert len(once) == 2


class Lines(logging.Handler):
    """Keeps the messages, but not the records, which would keep the tokenizer alive."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def test_every_tokenizer_that_lacks_an_id_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, logger = Lines(), logging.getLogger("streamdec")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [lines])
    for number in range(1, 20):
        stream = DecodeStream(Bare())
        assert stream.step_batch([0, 7, 1, 8]) == ["a", "", "b", ""]
        assert len(lines.said) == 2 * number
        assert lines.said[-2].endswith("has no known rules: its streams decode a window of ids")
        assert lines.said[-1].endswith(
            "has no id 7; unknown ids are counted in unknown_tokens, and not logged again"
        )
        del stream
