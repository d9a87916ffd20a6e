"""The face of mlx-lm without mlx-lm: the bugs of others and the laws, from the kit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tokenizers import Tokenizer

from streamdec import MockTokenizer
from streamdec.integrations.mlx_lm import StreamingDetokenizer
from streamdec.testing import Request, check_detokenizer
from tests.testing.adapters import known


class Adapter:
    """As ``stream_generate`` uses it."""

    def __init__(self, tokenizer: Tokenizer, request: Request) -> None:
        if request.stop:
            raise NotImplementedError("stop strings")
        self._detokenizer = StreamingDetokenizer(
            known(tokenizer),
            request.prompt_token_ids,
            skip_special_tokens=request.skip_special_tokens,
        )

    def step(self, token_ids: Iterable[Any]) -> str:
        for each in token_ids:
            self._detokenizer.add_token(each)
        return self._detokenizer.last_segment

    def flush(self) -> str:
        self._detokenizer.finalize()
        return self._detokenizer.last_segment


@pytest.mark.thorough
def test_the_conformance_kit_passes() -> None:
    report = check_detokenizer(Adapter, strict=True, max_examples=5)
    assert not report.failed, str(report)
    assert len(report.results) - len(report.skipped) > 50


def test_the_text_is_complete_after_each_token() -> None:
    """Whether or not the caller asks for the new text as well."""
    tokenizer = MockTokenizer.from_tokens([b" word"])
    for asks_for_segments in (False, True):
        detokenizer = StreamingDetokenizer(tokenizer)
        for count in range(1, 101):
            detokenizer.add_token(0)
            assert not asks_for_segments or detokenizer.last_segment == " word"
            assert len(detokenizer.text) == 5 * count
        assert detokenizer.offset == (500 if asks_for_segments else 0)
        assert len(detokenizer.last_segment) == (0 if asks_for_segments else 500)
