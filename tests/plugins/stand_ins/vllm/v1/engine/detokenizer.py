"""The detokenizers. The slow one, and the recovery from "Invalid prefix", are left out."""

from __future__ import annotations

from typing import Any

import tokenizers.decoders
from transformers import TokenizersBackend


def uses_fast_detokenizer(tokenizer: Any) -> bool:
    return isinstance(tokenizer, TokenizersBackend)


class IncrementalDetokenizer:
    """Counts ids and has no text."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids

    def num_output_tokens(self) -> int:
        return len(self.token_ids)

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> str | None:
        self.token_ids += new_token_ids
        return None

    def get_next_output_text(self, finished: bool, delta: bool) -> str:
        return ""

    @classmethod
    def from_new_request(cls, tokenizer: Any, request: Any) -> Any:
        if tokenizer is None:
            return IncrementalDetokenizer()
        if uses_fast_detokenizer(tokenizer):
            return FastIncrementalDetokenizer(tokenizer, request)
        return SlowIncrementalDetokenizer(tokenizer, request)


class FastIncrementalDetokenizer(IncrementalDetokenizer):
    """Decodes with the library's ``DecodeStream``, and looks for stops in the text."""

    def __init__(self, tokenizer: Any, request: Any) -> None:
        super().__init__()
        params = request.sampling_params
        self.stop: list[str] = params.stop
        self.min_tokens = params.min_tokens
        self.include_stop_str_in_output = params.include_stop_str_in_output
        is_hidden = self.stop and not self.include_stop_str_in_output
        self.stop_buffer_length = max(map(len, self.stop)) - 1 if is_hidden else 0
        self.tokenizer = tokenizer._tokenizer
        self.stream = tokenizers.decoders.DecodeStream(
            ids=request.prompt_token_ids, skip_special_tokens=params.skip_special_tokens
        )
        self.output_text = ""
        self._last_output_text_offset = 0

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> str | None:
        for place, token_id in enumerate(new_token_ids, 1):
            size = len(self.output_text)
            self.token_ids.append(token_id)
            is_end = stop_terminated and place == len(new_token_ids)
            if self.include_stop_str_in_output or not is_end:
                self.output_text += self.decode_next(token_id)
            if len(self.token_ids) <= self.min_tokens:
                continue
            found = check_stop_strings(
                self.output_text,
                len(self.output_text) - size,
                self.stop,
                self.include_stop_str_in_output,
            )
            if found is not None:
                stop, end = found
                self.output_text = self.output_text if end < 0 else self.output_text[:end]
                return stop
        return None

    def decode_next(self, next_token_id: int) -> str:
        try:
            return self.stream.step(self.tokenizer, next_token_id) or ""
        except (OverflowError, TypeError):  # an invalid id
            return ""

    def get_next_output_text(self, finished: bool, delta: bool) -> str:
        size = len(self.output_text) - (0 if finished else self.stop_buffer_length)
        if not delta:
            return self.output_text[: max(size, 0)]
        start = self._last_output_text_offset
        self._last_output_text_offset = max(start, size)
        return self.output_text[start : self._last_output_text_offset]


class SlowIncrementalDetokenizer(IncrementalDetokenizer):
    """Decodes with a tokenizer of another kind; here only its name."""

    def __init__(self, tokenizer: Any, request: Any) -> None:
        super().__init__()


def check_stop_strings(
    output_text: str, new_char_count: int, stop: list[str], include_in_output: bool
) -> tuple[str, int] | None:
    """Return the stop that ends first in the new characters, and where to cut (-1: nowhere)."""
    before = len(output_text) - new_char_count
    found = [
        (start + len(each), place, start)
        for place, each in enumerate(stop)
        if (start := output_text.find(each, max(before - len(each) + 1, 0))) >= 0
    ]
    if not found:
        return None
    end, place, start = min(found)
    if include_in_output:
        return stop[place], end if end < len(output_text) else -1
    return stop[place], start
