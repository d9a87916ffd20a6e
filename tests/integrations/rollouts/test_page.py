"""The page: its recipes with those classes of the trainers that run without a GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamdec import StopConditions
from streamdec.bulk import decode_rollouts
from tests.integrations.transformers.scripted import (
    SIZE,
    Script,
    spelled,
    tokenizer_of,
    torch,
    transformers,
)
from tests.integrations.vocabularies import EOS, PAD
from tests.support.pages import Page

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the trainers

PAGE = Page("docs/how-to/train.md")
CHAT = (
    "{% for each in messages %}{{ each.role }}: {{ each.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
MESSAGES = [{"role": "user", "content": "what?"}]
reason = "not installed: nox -s rollouts"


def tokenizer() -> Any:
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of("gpt2"), eos_token=EOS, pad_token=PAD, padding_side="left"
    )
    made.chat_template = CHAT
    return made


def code_of(kind: str) -> str:
    (code,) = PAGE.of_kind(kind)
    return code


def test_trl(tmp_path: Path) -> None:
    """Two steps of training, on answers of which one has the stop and one ends by itself."""
    trl: Any = pytest.importorskip("trl", reason=reason)
    datasets: Any = pytest.importorskip("datasets", reason=reason)
    grpo: Any = __import__("trl.trainer.grpo_trainer", fromlist=["GRPOTrainer"])
    it = tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=SIZE,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=it.pad_token_id,
        eos_token_id=it.eos_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    generate = model.generate
    said = ["It is 42.\nUser: no", "No."]
    rows = [spelled("gpt2", each) for each in said]
    model.generate = lambda **options: generate(
        **options, logits_processor=[Script(rows, it.eos_token_id)]
    )
    heard: list[Any] = []
    names = {
        "GRPOTrainer": grpo.GRPOTrainer,
        "tokenizer": it,
        "model": model,
        "dataset": datasets.Dataset.from_list([{"prompt": "one two"}, {"prompt": "what"}] * 2),
        "arguments": trl.GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=30,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            bf16=False,
        ),
    }
    exec(code_of("python trl"), names)
    trainer: Any = names["trainer"]
    reward: Any = names["reward"]

    def rewarded(**given: Any) -> Any:
        heard.append((given["completions"], given["answer"]))
        return reward(**given)

    trainer.reward_funcs = [rewarded]
    score = trainer._generate_and_score_completions
    batches: list[Any] = []

    def scored(inputs: Any) -> Any:
        batches.append(score(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = scored
    trainer.train()
    assert heard == [(["It is 42.\nUser:", "No."], ["It is 42.", "No."])] * 2
    stop = spelled("gpt2", "It is 42.\nUser:")
    end = [*spelled("gpt2", "No."), it.eos_token_id]
    padding = [it.pad_token_id] * (len(stop) - len(end))
    for batch in batches:
        assert batch["completion_ids"].tolist() == [stop, [*end, *padding]]
        assert batch["completion_mask"].sum(1).tolist() == [len(stop), len(end)]
        assert batch["sampling_per_token_logps"].shape == batch["completion_ids"].shape
        assert batch["advantages"][0] > batch["advantages"][1]


class Server:
    """verl's client of an engine that does not know of stops."""

    def __init__(self, said: str) -> None:
        self.ids = spelled("gpt2", said)

    async def generate(self, *, prompt_ids: Sequence[int], **options: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        logprobs = [-0.5 * place for place in range(len(self.ids))]
        return TokenOutput(token_ids=[*self.ids], log_probs=logprobs, stop_reason="length")


def test_an_agent_loop_of_verl() -> None:
    loops: Any = pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason=reason)
    OmegaConf: Any = pytest.importorskip("omegaconf", reason=reason).OmegaConf  # noqa: N806
    rollout = {"prompt_length": 64, "response_length": 32, "full_determinism": False}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(code_of("python verl"), names)
    assert loops._agent_loop_registry["single_turn_with_stops"]

    async def run() -> Any:
        loop = names["SingleTurnWithStops"](
            trainer_config=loops.DictConfigWrap(config),
            server_manager=Server("It is 42.\nUser: no"),
            tokenizer=tokenizer(),
            processor=None,
            dataset_cls=object,
            data_config=loops.DictConfigWrap(OmegaConf.create({})),
        )
        return await loop.run({}, raw_prompt=MESSAGES)

    found = asyncio.run(run())
    kept = spelled("gpt2", "It is 42.\nUser:")
    assert found.response_ids == kept
    assert found.response_mask == [1] * len(kept)
    assert found.response_logprobs == [-0.5 * place for place in range(len(kept))]
    assert found.extra_fields["answer"] == "It is 42."


def test_a_batch_of_verl() -> None:
    """Afterwards verl's own reward manager reads no more than was kept."""
    protocol: Any = pytest.importorskip("verl.protocol", reason=reason)
    naive: Any = __import__("verl.workers.reward_manager.naive", fromlist=["NaiveRewardManager"])
    it = tokenizer()
    rows = [spelled("gpt2", each) for each in ("It is 42.\nUser: no", "No. And more")]
    width = max(map(len, rows))
    sizes = torch.tensor([[len(row)] for row in rows])
    mask = (torch.arange(width) < sizes).long()
    responses = torch.tensor([row + [it.pad_token_id] * (width - len(row)) for row in rows])
    prompts = torch.tensor([it("what")["input_ids"]] * 2)
    data = protocol.DataProto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": torch.cat([torch.ones_like(prompts), mask], dim=1),
            "response_mask": mask.clone(),
        },
        non_tensors={
            "reward_model": np.array([{"ground_truth": "42"}] * 2, dtype=object),
            "data_source": np.array(["page"] * 2, dtype=object),
            "extra_info": np.array([{}, {}], dtype=object),
        },
    )
    names = {
        "data": data,
        "tokenizer": it,
        "conditions": StopConditions("\nUser:"),
        "decode_rollouts": decode_rollouts,
    }
    exec(code_of("python verl-batch"), names)
    kept = [len(spelled("gpt2", "It is 42.\nUser:")), len(rows[1])]
    assert data.batch["response_mask"].sum(1).tolist() == kept
    assert data.batch["attention_mask"][:, prompts.shape[1] :].sum(1).tolist() == kept
    read: list[str] = []

    def compute_score(*, solution_str: str, **_: Any) -> float:
        read.append(solution_str)
        return 1.0

    manager = naive.NaiveRewardManager(it, 0, compute_score=compute_score)
    scores = manager(data)
    assert read == ["It is 42.\nUser:", "No. And more"]
    assert scores.nonzero().tolist() == [[0, kept[0] - 1], [1, kept[1] - 1]]


class Engine:
    """SkyRL's client of an engine that does not know of stops."""

    model_name = "tiny"

    async def generate(self, input_batch: Any, model: str | None = None) -> Any:
        count = len(input_batch["prompt_token_ids"])
        rows = [spelled("gpt2", f"#### {row}\nUser: #### 7") for row in range(count)]
        return {
            "responses": ["not decoded"] * count,
            "response_ids": rows,
            "stop_reasons": ["length"] * count,
            "response_logprobs": [[-0.5] * len(row) for row in rows],
        }


def test_skyrl() -> None:
    module = "skyrl.train.generators.skyrl_gym_generator"
    generators: Any = pytest.importorskip(module, reason=reason)
    configs: Any = __import__("skyrl.train.config", fromlist=["GeneratorConfig"])
    config = configs.GeneratorConfig()
    config.batched, config.max_turns = True, 1
    names: dict[str, Any] = {
        "SkyRLGymGenerator": generators.SkyRLGymGenerator,
        "engine": Engine(),
        "tokenizer": tokenizer(),
        "generator_config": config,
        "gym_config": configs.SkyRLGymConfig(),
    }
    exec(code_of("python skyrl"), names)
    assert names["engine"].model_name == "tiny"
    truths = ["0", "7"]
    asked = {
        "prompts": [MESSAGES] * 2,
        "env_classes": ["gsm8k"] * 2,
        "env_extras": [{"reward_spec": {"ground_truth": truth}} for truth in truths],
        "sampling_params": {"logprobs": 1},
        "trajectory_ids": None,
    }
    found = asyncio.run(names["generator"].generate(asked))
    kept = [spelled("gpt2", f"#### {row}\nUser:") for row in range(2)]
    assert found["response_ids"] == kept
    assert found["rewards"] == [1.0, 0.0]  # the text after the stop is not part of the answer
    assert found["loss_masks"] == [[1] * len(row) for row in kept]
    assert found["rollout_logprobs"] == [[-0.5] * len(row) for row in kept]
    assert found["stop_reasons"] == ["stop", "stop"]
