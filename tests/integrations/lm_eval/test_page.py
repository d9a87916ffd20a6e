"""The page: its recipe with lm-eval's own HF model, which loads a tiny model from a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import Page

pytest.importorskip("lm_eval", reason="not installed: nox -s evaluation")

from lm_eval.api.instance import Instance
from lm_eval.models import huggingface

from tests.integrations.transformers.scripted import (
    Script,
    prompts,
    spelled,
    tokenizer_of,
    torch,
    transformers,
)
from tests.integrations.vocabularies import EOS, PAD, id_of

pytestmark = pytest.mark.filterwarnings("ignore")  # those of lm-eval and of datasets

PAGE = Page("docs/how-to/train.md", "Evaluate with lm-eval")
RECIPE, OTHER = PAGE.of_kind("python")
UNTIL = ["Question:", "\n\n"]
SAID = ["It is 42.\nQuestion: and" + " 43?" * 20, "Six.\n\n" + "Seven. " * 20, "I do not know."]
ANSWERS = ["It is 42.\n", "Six.", "I do not know."]
LIMIT = 64


class Evaluated:
    """lm-eval's HF model, which generates given answers."""

    def __init__(self, folder: Path) -> None:
        tokenizer = tokenizer_of("gpt2")
        self.eos = id_of(tokenizer, EOS)
        ids = {"pad_token_id": id_of(tokenizer, PAD), "eos_token_id": self.eos}
        config = transformers.LlamaConfig(
            vocab_size=512,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            **ids,
        )
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, eos_token=EOS, pad_token=PAD, padding_side="left"
        ).save_pretrained(folder)
        self.lm: Any = huggingface.HFLM(
            pretrained=str(folder), device="cpu", batch_size=8, dtype="float32"
        )
        self.passes = 0
        self.lm.model.register_forward_hook(self._count)
        self._generate = self.lm.model.generate
        self.lm.model.generate = self._scripted
        self._rows: list[list[int]] = []

    def _count(self, *_: Any) -> None:
        self.passes += 1

    def _scripted(self, *args: Any, **kwargs: Any) -> Any:
        script = Script(self._rows, self.eos)
        return self._generate(*args, logits_processor=[script], **kwargs)

    def answers(self, said: Sequence[str]) -> list[str]:
        """What lm-eval takes the answers to be."""
        self.passes = 0
        # The longest question comes first in its batch.
        questions = ["Question: " + "one " * (9 - row) + "\nAnswer:" for row in range(len(said))]
        self._rows = [spelled("gpt2", each) for each in said]
        options = {"until": UNTIL, "max_gen_toks": LIMIT, "do_sample": False}
        found: list[str] = self.lm.generate_until(
            [
                Instance("generate_until", {}, (question, dict(options)), row)
                for row, question in enumerate(questions)
            ],
            disable_tqdm=True,
        )
        return found


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("model"))


@pytest.fixture
def _own_criteria() -> Iterator[None]:
    """What the recipe replaces is put back."""
    own = huggingface.stop_sequences_criteria
    yield
    huggingface.stop_sequences_criteria = own


@pytest.mark.usefixtures("_own_criteria")
def test_the_recipe_gives_the_same_answers_in_fewer_passes(evaluated: Evaluated) -> None:
    assert evaluated.answers(SAID) == ANSWERS
    theirs = evaluated.passes
    exec(RECIPE, {})
    assert evaluated.answers(SAID) == ANSWERS
    ours = evaluated.passes
    assert ours == len(spelled("gpt2", "It is 42.\nQuestion:"))
    told = [int(each) for each in re.findall(r"^\| .* \| (\d+) \|$", PAGE.text, re.MULTILINE)]
    assert told == [theirs, ours]


@pytest.mark.usefixtures("_own_criteria")
def test_an_answer_does_not_depend_on_its_batch(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.integrations.lm_eval.test_page.UNTIL", ["bcd", "c"])
    alone, batch = ["abcde"], ["abcde", "x" * 9]
    assert [evaluated.answers(each)[0] for each in (alone, batch)] == ["ab", "a"]
    exec(RECIPE, {})
    assert [evaluated.answers(each)[0] for each in (alone, batch)] == ["ab", "ab"]


def test_the_second_example_prints_what_the_page_says(
    evaluated: Evaluated, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated._rows = [spelled("gpt2", each) for each in (SAID[0], SAID[2])]
    names: dict[str, Any] = {
        "model": evaluated.lm.model,
        "tokenizer": evaluated.lm.tokenizer,
        "inputs": prompts("gpt2", ["one two", "three"]),
    }
    exec("from streamdec.integrations.transformers import StopSequenceCriteria", names)
    exec(OTHER, names)
    ((_, text),) = [each for each in PAGE.examples if each[0] == OTHER]
    assert capsys.readouterr().out == text
    assert torch.is_tensor(names["ids"])
