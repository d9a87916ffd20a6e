"""Unknown ids are logged once for each tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from streamdec import DecodeStream, MockTokenizer


class Bare:
    """Takes no weak references; has three tokens."""

    __slots__ = ()

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "".join("abc"[token_id] for token_id in token_ids)

    def piece(self, token_id: int) -> str | None:
        return "abc"[token_id] if token_id < 3 else None


class Lines(logging.Handler):
    """Keeps the messages, but not the records, which would keep the tokenizer alive."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages in the log."""
    lines, logger = Lines(), logging.getLogger("streamdec")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [lines])
    return lines.said


@pytest.mark.parametrize("kind", [Bare, MockTokenizer])
def test_every_tokenizer_that_lacks_an_id_is_named(kind: type, said: list[str]) -> None:
    """Each may have the ``id`` of the one before."""
    for number in range(1, 20):
        stream = DecodeStream(kind())
        stream.step_batch([70_000, 1, 70_001])
        assert stream.unknown_tokens == 2
        has_rules = kind is MockTokenizer
        assert len(said) == number * (1 if has_rules else 2)
        if not has_rules:
            assert said[-2].endswith("has no known rules: its streams decode a window of ids")
        assert said[-1].endswith(
            "has no id 70000; unknown ids are counted in unknown_tokens, and not logged again"
        )
        del stream


def test_a_tokenizer_is_named_once(said: list[str]) -> None:
    tokenizer = MockTokenizer()
    for _ in range(3):
        DecodeStream(tokenizer).step_batch([70_000, 1, 70_001])
    assert len(said) == 1
