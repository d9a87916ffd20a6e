"""The scheduler's requests, and their end by a stop string.

Left out: ends by ids, by length and by a grammar. The engine searches the text of the last few ids,
one more than the longest stop has. This stand-in takes one for each character instead.
"""

from __future__ import annotations

from array import array
from typing import Any


class FINISH_MATCHED_STR:  # noqa: N801 (the name that the engine has)
    def __init__(self, matched: str) -> None:
        self.matched = matched

    def to_json(self) -> dict[str, Any]:
        return {"type": "stop", "matched": self.matched}


class Req:
    def __init__(
        self,
        rid: str,
        origin_input_text: str,
        origin_input_ids: Any,
        sampling_params: Any,
        stream: bool = False,
    ) -> None:
        self.rid, self.stream = rid, stream
        self.origin_input_ids = origin_input_ids
        self.sampling_params = sampling_params
        self.tokenizer: Any = None
        self.output_ids = array("q")
        self.finished_reason: FINISH_MATCHED_STR | None = None
        self.finished_len: int | None = None
        self.send_decode_id_offset = 0

    def finished(self) -> bool:
        return self.finished_reason is not None

    def update_finish_state(self, new_accepted_len: int = 1) -> None:
        if not self.finished():
            self._check_str_based_finish(new_accepted_len)

    def _stop_match_tail_len(self, new_accepted_len: int) -> int:
        longest = max(map(len, self.sampling_params.stop_strs))
        return min(longest + new_accepted_len, len(self.output_ids))

    def _check_str_based_finish(self, new_accepted_len: int = 1) -> bool:
        size, stops = len(self.output_ids), self.sampling_params.stop_strs
        start = size - self._stop_match_tail_len(new_accepted_len)
        for stop in stops:
            for length in range(size - new_accepted_len + 1, size + 1):
                if stop in self.tokenizer.decode(self.output_ids[start:length]):
                    self.finished_reason = FINISH_MATCHED_STR(stop)
                    self.finished_len = length
                    return True
        return False

    def check_match_stop_str_prefix(self) -> bool:
        text = self.tokenizer.decode(self.output_ids, skip_special_tokens=False)
        return any(
            text.endswith(stop[:size])
            for stop in self.sampling_params.stop_strs
            for size in range(1, len(stop) + 1)
        )

    def init_incremental_detokenize(self) -> tuple[list[int], int]:
        prompt = self.origin_input_ids[-5:]
        return [*prompt, *self.output_ids[: self.finished_len]], len(prompt)
