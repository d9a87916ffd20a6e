"""The questions about tokens, files, classes and quantisation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import TokenizerLoadError
from streamdec.preflight import (
    cross_ref_files,
    discover_added_tokens,
    effective_tokenizer_class,
    find_nested_quantization_config,
    inspect,
    is_turn_marker_eos,
    resolve_marker_to_id,
    summarize_quant_config,
    version_gate_tokenizer_class,
)
from streamdec.preflight.turns import openers, probe
from tests.preflight.changes import both, config, entry, file, flag, generation, own, say, template
from tests.preflight.making import control, shared_snapshots

REAL = [pytest.param(path, id=path.name) for path in shared_snapshots()]


def test_added_tokens_are_those_after_loading(tmp_path: Path) -> None:
    change = both(flag(1, special=False), entry(260, "<|new|>", special=False))
    folder = control(change).write(tmp_path)
    found = discover_added_tokens(folder)
    assert [token.id for token in found.values()] == list(found) == [256, 257, 258, 259, 260]
    assert (found[257].special, found[257].is_disputed) == (True, True)
    assert found[257].flags == {"tokenizer.json": False, "tokenizer_config.json": True}
    assert found[258].sources == ("tokenizer.json", "tokenizer_config.json", "eos_token")
    assert found[260].sources == ("tokenizer_config.json",)
    assert (found[260].content, found[260].special) == ("<|new|>", False)


def test_a_marker_has_one_id_none_or_several(tmp_path: Path) -> None:
    folder = control(both(entry(300, "<|im_end|>"), own(261, "<|pad|>"))).write(tmp_path)
    assert resolve_marker_to_id(folder, "<|im_start|>") == [257]
    assert resolve_marker_to_id(folder, "<|user|>") == []
    assert resolve_marker_to_id(folder, "") == []
    assert resolve_marker_to_id(folder, "<|im_end|>") == [258, 300]
    assert resolve_marker_to_id(folder, "<|pad|>") == [259, 261]
    assert resolve_marker_to_id(folder, "a") != [], "a token of the vocabulary is a token too"
    with pytest.raises(TypeError, match="marker must be a string, got int"):
        resolve_marker_to_id(folder, 258)  # type: ignore[arg-type] # that is tested


@pytest.mark.parametrize(
    ("written", "line"), [("'<|im_' ~ 'start|>'", ""), ("'<|im_start|>'", ":2")]
)
def test_a_marker_that_begins_is_reported_with_its_line(
    tmp_path: Path, written: str, line: str
) -> None:
    text = "{%- for m in messages %}\n{{ " + written + " + m.role + m.content }}{%- endfor %}"
    change = both(template(text), generation(eos_token_id=[258, 257]))
    ((token_id, content, where),) = is_turn_marker_eos(control(change).write(tmp_path))
    assert (token_id, content) == (257, "<|im_start|>")
    roles = ("a user", "an assistant", "a system", "a tool")
    told = " and ".join(f"{role} message" for role in roles)
    assert where == f"before {told}, tokenizer_config.json#/chat_template{line}"


HARMONY = (
    "{%- for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}"
    "{%- if m.tool_calls %} to=look<|call|>"
    "{%- elif m.role == 'assistant' and loop.last %}<|return|>{%- else %}<|end|>{%- endif %}"
    "{%- endfor %}"
)
UNCLOSED = (  # the answer is closed where it is last, and else by the next turn
    "{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{%- if loop.last and m.role == 'assistant' %}<|usual|>{%- endif %}{%- endfor %}"
)
CLOSING = (  # the first of two markers before a turn closes the one before
    "{%- for m in messages %}{% if m.role == 'user' %}<|user|>{% endif %}{{ m.content }}"
    "{%- if not loop.last %}<|end|>{% endif %}{%- endfor %}"
)
REFUSING = (  # a conversation that is rejected shows nothing, and the others do
    "{%- for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{%- endfor %}"
)
ROLES = ("user", "assistant", "system", "tool")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HARMONY, {"<|start|>": ROLES, "<|message|>": ROLES}),
        ("<|return|>" + HARMONY, {"<|start|>": ROLES, "<|message|>": ROLES}),
        (UNCLOSED, {f"<|{role}|>": (role,) for role in ROLES}),
        (UNCLOSED.replace("|>{{", "|> {{"), {f"<|{role}|>": (role,) for role in ROLES}),
        (CLOSING, {"<|user|>": ("user",)}),
        (REFUSING, {f"<|{role}|>": (role,) for role in ROLES[:3]}),
        ("{{ messages | length }}", {}),
    ],
)
def test_the_beginnings_of_messages_are_found(
    text: str, expected: dict[str, tuple[str, ...]]
) -> None:
    names = ("start", "message", "call", "return", "end", "usual", *ROLES)
    markers = {f"<|{name}|>": i for i, name in enumerate(names)}
    probes = probe(text, {})
    assert openers(probes, markers) == expected
    assert openers(probes, {}) == {}


@pytest.mark.parametrize(
    ("asked", "gate"),
    [
        ("TokenizersBackend", ">=5.0"),
        ("MistralCommonBackend", ">=5.0"),
        ("PreTrainedTokenizerFast", ">=4.0"),
        ("LlamaTokenizer", ">=4.0"),
        ("LlamaTokenizerFast", ">=4.0"),
        ("AcmeTokenizer", ">=5.0"),
        ({"tokenizer_class": "TokenizersBackend"}, ">=5.0"),
        ({"tokenizer_class": "TikTokenTokenizer", "auto_map": ["a.TikTokenTokenizer"]}, ">=4.0"),
        ({"tokenizer_class": None}, ">=4.0"),
    ],
)
def test_the_version_that_a_class_needs(asked: Any, gate: str) -> None:
    assert version_gate_tokenizer_class(asked) == gate


@pytest.mark.parametrize(
    ("said", "version", "expected"),
    [
        ({}, "5.24.0", "TokenizersBackend"),
        ({}, "4.57.6", "PreTrainedTokenizerFast"),
        ({"tokenizer_class": "Qwen2Tokenizer"}, "4.57.6", "Qwen2TokenizerFast"),
        ({"tokenizer_class": "PreTrainedTokenizer"}, "4.57.6", "PreTrainedTokenizerFast"),
        ({"tokenizer_class": "GPT2Tokenizer"}, "5.5.4", "GPT2Tokenizer"),
        ({"tokenizer_class": "LlamaTokenizerFast"}, "5.19.0", "TokenizersBackend"),
        ({"tokenizer_class": "AcmeTokenizer"}, "5.0.0", "TokenizersBackend"),
        ({"tokenizer_class": "AcmeTokenizer"}, "4.57.6", None),
        ({"auto_map": {"AutoTokenizer": ["a.B", None]}}, "5.24.0", None),
        ({"tokenizer_class": None}, "4.57.6", None),
    ],
)
def test_the_class_that_loads(
    tmp_path: Path, said: dict[str, Any], version: str, expected: str | None
) -> None:
    found = effective_tokenizer_class(control(say(**said)).write(tmp_path), version)
    assert found.name == expected
    assert found.remote_code is ("auto_map" in said)
    assert (found.error is not None) is (
        said.get("tokenizer_class") == "AcmeTokenizer" and not expected
    )
    assert found.resolved is (said != {"tokenizer_class": None})


LOADED = json.loads((Path(__file__).parent / "data" / "classes.json").read_text("utf-8"))
"""What AutoTokenizer of three versions made of the shared snapshots, where it made anything."""


@pytest.mark.parametrize("folder", REAL)
def test_the_class_is_the_one_that_transformers_took(folder: Path) -> None:
    for version, classes in LOADED.items():
        if folder.name in classes:
            found = effective_tokenizer_class(folder, version)
            assert (found.name or found.error) == classes[folder.name], version


def test_every_quantisation_is_found_the_outer_first(tmp_path: Path) -> None:
    inner, listed = {"quant_method": "awq", "bits": 4}, {"quant_method": "fp8"}
    config = {
        "parts": [{}, {"quantization_config": listed}],
        "text_config": {"quantization_config": inner, "vision": {"quantization_config": {}}},
        "quantization_config": {"quant_method": "gptq"},
    }
    expected = [
        ("quantization_config", {"quant_method": "gptq"}),
        ("text_config.quantization_config", inner),
        ("parts.1.quantization_config", listed),
    ]
    assert find_nested_quantization_config(config) == expected
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert find_nested_quantization_config(tmp_path) == expected
    assert find_nested_quantization_config({"quantization_config": None}) == []


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False},
         "gptq bits=4 group_size=128 desc_act=False"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8 activation_scheme=dynamic"),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": None},
         "modelopt quant_algo=NVFP4 kv_cache_quant_algo=None"),
        ({"bits": 8}, "no method bits=8"),
        ({"quant_method": "x\n\x1b[31m"}, r"'x\n\x1b[31m'"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": None}, "ignore": "x",
          "kv_cache_scheme": {"num_bits": 8}}, "compressed-tensors kv_cache_scheme=set"),
    ],
)  # fmt: skip
def test_a_quantisation_in_one_line(config: dict[str, Any], line: str) -> None:
    assert summarize_quant_config(config) == line


def test_a_folder_is_summarised_with_every_place(tmp_path: Path) -> None:
    assert summarize_quant_config(control().write(tmp_path / "none")) == "none"

    change = both(
        config(text_config={"quantization_config": {"quant_method": "awq"}}),
        file("hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}),
    )
    assert summarize_quant_config(control(change).write(tmp_path / "two")) == (
        "hf_quant_config.json#quantization: modelopt quant_algo=FP8; "
        "config.json#text_config.quantization_config: awq"
    )


def test_a_missing_folder_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("{}")
    for path in (file, tmp_path / "missing", tmp_path / "a\0b"):
        for ask in (
            inspect,
            discover_added_tokens,
            is_turn_marker_eos,
            cross_ref_files,
            effective_tokenizer_class,
            version_gate_tokenizer_class,
            find_nested_quantization_config,
            summarize_quant_config,
        ):
            with pytest.raises(TokenizerLoadError, match="expected the folder of a model"):
                ask(path)
