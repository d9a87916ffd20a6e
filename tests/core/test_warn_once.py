"""Unknown ids are logged once for each tokenizer."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence

import pytest

from streamdec import DecodeStream, MockTokenizer


class Bare:
    """Takes no weak references; has three tokens."""

    __slots__ = ()

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "".join("abc"[token_id] for token_id in token_ids)

    def piece(self, token_id: int) -> str | None:
        return "abc"[token_id] if token_id < 3 else None


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages in the log, without the records, which would keep the tokenizer alive."""
    log, logger = io.StringIO(), logging.getLogger("streamdec")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(log)])
    return lambda: log.getvalue().splitlines()


@pytest.mark.parametrize(("kind", "lines"), [(Bare, 2), (MockTokenizer, 1)])
def test_every_tokenizer_that_lacks_an_id_is_named_once(
    kind: type, lines: int, said: Callable[[], list[str]]
) -> None:
    """Each may have the ``id`` of the one before. A tokenizer without rules is named, too."""
    for number in range(1, 20):
        tokenizer = kind()
        for _ in range(1 if kind is Bare else 3):
            stream = DecodeStream(tokenizer)
            stream.step_batch([70_000, 1, 70_001])
            assert stream.unknown_tokens == 2
        found = said()
        assert len(found) == number * lines
        assert found[-1].endswith(
            "has no id 70000; unknown ids are counted in unknown_tokens, and not logged again"
        )
        assert lines == 1 or "has no known rules: its streams decode a window" in found[-2]
        del stream, tokenizer
