"""vLLM's output processor and detokenizers, fed by a script in the place of its engine core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from tokenizers import Tokenizer

__all__ = ["FrontHalf"]


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
        params: of ``SamplingParams``.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        prompt_token_ids: Sequence[int] = (1,),
        kind: str = "DELTA",
        stream_interval: int = 1,
        **params: Any,
    ) -> None:
        from vllm.sampling_params import RequestOutputKind, SamplingParams
        from vllm.v1.engine import EngineCoreRequest
        from vllm.v1.engine.output_processor import OutputProcessor
        from vllm.v1.engine.parallel_sampling import ParentRequest

        held = tokenizer and _held(tokenizer)
        self.processor = OutputProcessor(held, log_stats=False, stream_interval=stream_interval)
        request = EngineCoreRequest(
            request_id="0",
            external_req_id="request",
            prompt_token_ids=[*prompt_token_ids],
            mm_features=None,
            sampling_params=SamplingParams(output_kind=RequestOutputKind[kind], **params),
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            resumable=False,
        )
        self.request = request
        if request.sampling_params.n == 1:
            self.processor.add_request(request, None)
            return
        parent = ParentRequest(request)
        for index in range(request.sampling_params.n):
            child_id, child_params = parent.get_child_info(index)
            child = EngineCoreRequest(
                **{name: getattr(request, name) for name in request.__struct_fields__}
            )
            child.request_id, child.sampling_params = child_id, child_params
            self.processor.add_request(child, None, parent, index)

    def outputs(
        self, groups: Iterable[Sequence[int]], reason: str | None = None, stop: int | None = None
    ) -> Iterator[Any]:
        """What a caller of vLLM gets while its core gives ``groups``, the last with ``reason``."""
        groups = [*groups]
        for place, ids in enumerate(groups):
            is_last = place == len(groups) - 1
            yield from self.step({"0": (ids, reason if is_last else None, stop)})
            if not self.processor.has_unfinished_requests():
                return

    def step(self, given: dict[str, tuple[Sequence[int], str | None, int | None]]) -> list[Any]:
        """One step of the core: for each request new ids, why it ended, and at which stop token."""
        from vllm.v1.engine import EngineCoreOutput, FinishReason

        done = self.processor.process_outputs(
            [
                EngineCoreOutput(
                    request_id=name,
                    new_token_ids=[*ids],
                    finish_reason=reason and FinishReason[reason],
                    stop_reason=stop if reason else None,
                )
                for name, (ids, reason, stop) in given.items()
            ]
        )
        return list(done.request_outputs)
