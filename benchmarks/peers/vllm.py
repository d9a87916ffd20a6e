"""vLLM's detokenizers: one ``update`` and the new text for each token."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from benchmarks.peers.kit import Kit
from benchmarks.peers.peer import Peer
from benchmarks.subjects import Subject

_FILE = "vllm/v1/engine/detokenizer.py"
_UTILITIES = "vllm/tokenizers/detokenizer_utils.py"
_BASE = (
    "INVALID_PREFIX_ERR_MSG",
    "IncrementalDetokenizer",
    "BaseIncrementalDetokenizer",
    "check_stop_strings",
)
_WINDOW = (
    "_replace_none_with_empty",
    "_convert_tokens_to_string_with_added_encoders",
    "INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET",
    "convert_prompt_ids_to_tokens",
    "detokenize_incrementally",
)


class _Vllm(Peer):
    """Both detokenizers. The stream is the detokenizer."""

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        parameters = SimpleNamespace(
            stop=[*stops],
            min_tokens=0,
            include_stop_str_in_output=False,
            skip_special_tokens=True,
            spaces_between_special_tokens=True,
        )
        self._request = SimpleNamespace(
            sampling_params=parameters,
            request_id="benchmark",
            prompt_token_ids=[],
            prompt_embeds=None,
        )
        self._make, self._tokenizer = self._parts(kit, subject)

    def _parts(self, kit: Kit, subject: Subject) -> tuple[Any, Any]:
        """The class, and its tokenizer."""
        raise NotImplementedError

    def open(self) -> Any:
        return self._make(self._tokenizer, self._request)

    def step(self, stream: Any, token_id: int) -> str:
        stream.update([token_id], False)
        text: str = stream.get_next_output_text(False, True)
        return text

    def end(self, stream: Any) -> str:
        text: str = stream.get_next_output_text(True, True)
        return text

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        update, text = stream.update, stream.get_next_output_text
        for token_id in token_ids:
            update([token_id], False)
            text(False, True)


class VllmFast(_Vllm):
    """The fast one, which uses the library's ``DecodeStream``."""

    name = "vLLM Fast"

    def _parts(self, kit: Kit, subject: Subject) -> tuple[Any, Any]:
        names = (*_BASE, "FastIncrementalDetokenizer")
        found = kit.definitions("vllm", _FILE, names, logger=logging.getLogger(__name__))
        return found["FastIncrementalDetokenizer"], SimpleNamespace(_tokenizer=subject.library)


class VllmSlow(_Vllm):
    """The slow one in Python, for tokenizers without a fast version."""

    name = "vLLM Slow"

    def _parts(self, kit: Kit, subject: Subject) -> tuple[Any, Any]:
        window = kit.definitions("vllm", _UTILITIES, _WINDOW)
        found = kit.definitions(
            "vllm",
            _FILE,
            (*_BASE, "SlowIncrementalDetokenizer"),
            convert_prompt_ids_to_tokens=window["convert_prompt_ids_to_tokens"],
            detokenize_incrementally=window["detokenize_incrementally"],
            length_from_prompt_token_ids_or_embeds=lambda ids, _: len(ids),
        )
        return found["SlowIncrementalDetokenizer"], kit.tokenizer(subject.path)
