"""vLLM's output processor and detokenizers, fed by a script in the place of its engine core.

They run on a CPU, without most of the dependencies of vLLM's wheel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from tokenizers import Tokenizer


@cache
def _held(tokenizer: Tokenizer) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


class FrontHalf:
    """One request of vLLM's.

    Args:
        tokenizer: as vLLM holds it; None as with ``skip_tokenizer_init``.
        prompt_token_ids: what was asked.
        kind: ``"DELTA"``, ``"CUMULATIVE"`` or ``"FINAL_ONLY"``.
        resumable: streaming input: more parts of the prompt may follow.
        params: of ``SamplingParams``.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        prompt_token_ids: Sequence[int] = (1,),
        kind: str = "DELTA",
        stream_interval: int = 1,
        resumable: bool = False,
        **params: Any,
    ) -> None:
        from vllm.sampling_params import RequestOutputKind, SamplingParams
        from vllm.v1.engine.output_processor import OutputProcessor

        held = tokenizer and _held(tokenizer)
        self.processor = OutputProcessor(held, log_stats=False, stream_interval=stream_interval)
        self.params = SamplingParams(output_kind=RequestOutputKind[kind], **params)
        self.resumable = resumable
        self.ask(prompt_token_ids)

    def ask(self, prompt_token_ids: Sequence[int]) -> None:
        """Add the request, or the next part of its prompt."""
        from vllm.v1.engine import EngineCoreRequest

        request = EngineCoreRequest(
            request_id="0",
            external_req_id="request",
            prompt_token_ids=[*prompt_token_ids],
            mm_features=None,
            sampling_params=self.params,
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            resumable=self.resumable,
        )
        self.processor.add_request(request, None)

    def outputs(
        self, groups: Iterable[Sequence[int]], reason: str | None = None, stop: int | None = None
    ) -> Iterator[Any]:
        """What a caller of vLLM gets while its core gives ``groups``, the last with ``reason``."""
        from vllm.v1.engine import EngineCoreOutput, FinishReason

        groups = [*groups]
        for place, ids in enumerate(groups):
            is_last = place == len(groups) - 1
            step = EngineCoreOutput(
                request_id="0",
                new_token_ids=[*ids],
                finish_reason=FinishReason[reason] if reason and is_last else None,
                stop_reason=stop if reason and is_last else None,
            )
            yield from self.processor.process_outputs([step]).request_outputs
            if not self.processor.has_unfinished_requests():
                return
