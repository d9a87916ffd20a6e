"""What becomes of chat_template_kwargs on each engine, and the environment of templates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import MissingExtraError
from streamdec.preflight import build_chat_template_env, effective_template_kwargs
from tests.preflight.changes import both, config, file, say, template
from tests.preflight.making import CHATML, Parts, control
from tests.support.caches import traced

meta = pytest.importorskip("jinja2.meta")

THINKING = CHATML + "{%- if enable_thinking is defined and not enable_thinking %}-{%- endif %}"
GIVEN: Mapping[str, Any] = {
    "enable_thinking": False,
    "thinkng": True,
    "documents": [],
    "add_generation_prompt": False,
    "chat_template": "x",
    "tokenize": True,
}


def snapshot(folder: Path, *changes: Callable[[Parts], object]) -> Path:
    return control(both(template(THINKING), *changes)).write(folder)


@pytest.mark.parametrize(
    ("engine", "kept", "dropped", "refused"),
    [
        ("vllm", "enable_thinking documents", "thinkng add_generation_prompt",
         "chat_template tokenize"),
        ("sglang", "enable_thinking documents thinkng", "",
         "chat_template tokenize add_generation_prompt"),
        ("sglang@0.5.10", "enable_thinking documents thinkng chat_template", "",
         "tokenize add_generation_prompt"),
        ("transformers", " ".join(GIVEN), "", ""),
    ],
)  # fmt: skip
def test_each_engine_accepts_or_drops_keyword_arguments(
    tmp_path: Path, engine: str, kept: str, dropped: str, refused: str
) -> None:
    found = effective_template_kwargs(snapshot(tmp_path), engine, GIVEN)
    assert set(found.kept) == set(kept.split())
    assert set(found.dropped) == set(dropped.split())
    assert set(found.refused) == set(refused.split())
    assert all(found.kept[name] == GIVEN[name] for name in found.kept)
    assert all(reason for reason in (*found.dropped.values(), *found.refused.values()))


def test_a_trusted_template_is_taken_and_asked(tmp_path: Path) -> None:
    folder = snapshot(tmp_path)
    given = {"chat_template": "{{ other }}", "other": 1, "enable_thinking": False}
    for engine in ("vllm", "sglang"):
        found = effective_template_kwargs(folder, engine, given, trust_request_chat_template=True)
        assert found.refused == {}
        assert "chat_template" in found.kept
        assert ("enable_thinking" in found.dropped) is (engine == "vllm")
        assert "other" in found.kept


@pytest.mark.parametrize("text", [None, "{% for", "{{ 9 ** (9 ** 9) }}" * 20_000])
def test_without_a_template_that_can_be_read_vllm_rejects(tmp_path: Path, text: str | None) -> None:
    found = effective_template_kwargs(snapshot(tmp_path, say(chat_template=text)), "vllm", {"a": 1})
    assert (found.kept, found.dropped, set(found.refused)) == ({}, {}, {"a"})


def test_engines_that_render_by_themselves(tmp_path: Path) -> None:
    oss = snapshot(tmp_path / "oss", config(model_type="gpt_oss"))
    assert set(effective_template_kwargs(oss, "vllm", GIVEN).dropped) == set(GIVEN)
    assert "thinkng" in effective_template_kwargs(oss, "sglang", GIVEN).kept
    none = say(chat_template=None)
    v32 = config(model_type="deepseek_v32", architectures=["DeepseekV32ForCausalLM"])
    deepseek = snapshot(tmp_path / "v32", none, v32)
    given = {"thinking": True, "other": 1}
    assert effective_template_kwargs(deepseek, "vllm", given).kept == given
    v3 = config(model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"])
    deepseek = snapshot(tmp_path / "v3", none, v3)
    assert effective_template_kwargs(deepseek, "sglang@0.5.10", given).kept == {"thinking": True}
    assert effective_template_kwargs(deepseek, "sglang", given).kept == given
    assert "own" in effective_template_kwargs(deepseek, "sglang@0.5.10", given).dropped["other"]
    with_template = snapshot(tmp_path / "v3t", v3)
    assert effective_template_kwargs(with_template, "sglang@0.5.10", given).kept == given
    names, consolidated = file("tekken.json", "{}"), file("consolidated.safetensors", b"")
    tekken = snapshot(tmp_path / "tekken", names)
    assert not effective_template_kwargs(tekken, "vllm", given).refused
    weights = snapshot(tmp_path / "weights", consolidated)
    assert not effective_template_kwargs(weights, "vllm", given).refused
    native = snapshot(tmp_path / "mistral", names, consolidated)
    assert set(effective_template_kwargs(native, "vllm", given).refused) == set(given)


def test_tools_choose_the_template_that_is_named_for_them(tmp_path: Path) -> None:
    folder = snapshot(
        tmp_path,
        say(chat_template=None),
        file("additional_chat_templates/tool_use.jinja", "{{ a }}"),
        file("chat_template.jinja", "{{ b }}"),
    )
    given = {"a": 1, "b": 2}
    assert effective_template_kwargs(folder, "vllm", given).kept == {"b": 2}
    assert effective_template_kwargs(folder, "vllm", given, with_tools=True).kept == {"a": 1}


def test_malformed_arguments_are_rejected(tmp_path: Path) -> None:
    folder = snapshot(tmp_path)
    with pytest.raises(ValueError, match="unknown engine"):
        effective_template_kwargs(folder, "tgi", {})
    with pytest.raises(TypeError, match="kwargs must be a mapping of names"):
        effective_template_kwargs(folder, "vllm", {1: 2})  # type: ignore[dict-item]


def test_without_jinja2_one_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = snapshot(tmp_path)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for ask in (build_chat_template_env, lambda: effective_template_kwargs(folder, "vllm", {})):
        with pytest.raises(MissingExtraError, match=r"pip install 'streamdec\[chat\]'"):
            ask()


@pytest.mark.parametrize(
    "constant", ["'a' * 1000000000", pytest.param("9 ** (9 ** 8)", marks=pytest.mark.thorough)]
)
def test_constants_are_computed_in_the_child_alone(tmp_path: Path, constant: str) -> None:
    """jinja2 computes them as it looks for the variables."""
    folder = snapshot(tmp_path, template(f"{{{{ {constant} }}}}{{{{ b }}}}"))
    with traced() as memory:
        found = effective_template_kwargs(folder, "vllm", {"b": 1})
        assert memory()[1] < 100_000_000
    assert found.kept == {"b": 1} or "too much processor time" in found.refused["b"]
