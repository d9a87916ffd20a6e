"""The page for those who come from vLLM: what its blocks print, beside vLLM's own detokenizer.

The blocks after the first need vLLM's front half: the group ``vllm``, installed as pyproject.toml
says, and ``python -m pytest tests/docs/test_coming_from_vllm.py``.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import Page, make_model_folder

PAGE = Page("docs/how-to/coming-from-vllm.md")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_model_folder(tmp_path / "path" / "to" / "model")
    monkeypatch.chdir(tmp_path)


def test_its_first_block_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = PAGE.examples[0]
    exec(code, {})
    assert capsys.readouterr().out == text


def test_its_blocks_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of vLLM's and torch's, while they are imported
        pytest.importorskip("vllm", reason="vLLM's front half is in the group vllm")
        import_module("vllm.v1.engine.detokenizer")
    names: dict[str, Any] = {}
    said = dict(PAGE.examples)
    codes = PAGE.of_kind("python")
    assert len(codes) == len(said) + 1  # one defines a function
    for code in codes:
        exec(code, names)
        assert capsys.readouterr().out == said.get(code, "")


def test_the_names_of_the_tables_are_there() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vllm = pytest.importorskip("vllm", reason="vLLM's front half is in the group vllm")
        from vllm.exceptions import VLLMValidationError
        from vllm.tokenizers import detokenizer_utils
        from vllm.v1.engine import detokenizer
    rows = [line for line in PAGE.text.splitlines() if line.startswith("| `stop`, ")]
    assert len(rows) == 1
    params = vllm.SamplingParams()
    for name in (
        "stop", "stop_token_ids", "include_stop_str_in_output", "min_tokens", "ignore_eos",
        "max_tokens", "skip_special_tokens", "spaces_between_special_tokens", "detokenize",
        "output_kind", "stream_interval", "n", "logprobs", "repetition_detection", "bad_words",
        "structured_outputs", "thinking_token_budget",
    ):  # fmt: skip
        assert f"`{name}" in PAGE.text
        assert hasattr(params, name)
    assert params.max_tokens == 16
    with pytest.raises(VLLMValidationError, match="only supported when detokenize is True"):
        vllm.SamplingParams(detokenize=False, stop="User:")
    for module, names in (
        (detokenizer, ["FastIncrementalDetokenizer", "SlowIncrementalDetokenizer"]),
        (detokenizer, ["check_stop_strings"]),
        (detokenizer_utils, ["detokenize_incrementally", "convert_prompt_ids_to_tokens"]),
    ):
        for name in names:
            assert f"`{name}" in PAGE.text
            assert hasattr(module, name)
