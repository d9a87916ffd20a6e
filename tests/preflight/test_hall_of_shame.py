"""Incidents of real models: each is found in a small snapshot, and described correctly."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamdec import StopSequenceDecoder, load_tokenizer
from streamdec.preflight import (
    discover_added_tokens,
    effective_stop_tokens,
    effective_tokenizer_class,
    find_nested_quantization_config,
    inspect,
    is_turn_marker_eos,
    resolve_marker_to_id,
    stop_conditions,
    summarize_quant_config,
    version_gate_tokenizer_class,
)
from tests.preflight.incidents import write

ENGINES = ("vllm", "sglang", "transformers")


@pytest.fixture(scope="module")
def incidents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("incidents"))


def stops(folder: Path) -> set[tuple[int, ...]]:
    """What the engines stop on; one tuple if it is the same for all."""
    return {tuple(sorted(effective_stop_tokens(folder, engine).ids)) for engine in ENGINES}


# --- GLM-5.1 --------------------------------------------------------------------------------------


def test_glm_ends_a_turn_with_the_next_without_an_error(incidents: Path) -> None:
    report = inspect(incidents / "glm")
    (primer,) = [f for f in report.findings if f.code == "EOS_TURN_PRIMER_IN_STOP_SET"]
    assert primer.severity == "info"
    assert "Keep the id" in primer.action
    assert {i for e in primer.evidence for i in e.ids} == {260, 262}
    assert not {"EOS_TERMINATOR_NOT_STOPPED", "EOS_ENGINES_DISAGREE"} & report.codes
    assert "EOS_SOURCES_DISAGREE" not in report.codes, "each engine stops on all three"
    assert stops(incidents / "glm") == {(256, 260, 262)}


def test_glm_says_whose_turns_its_stops_begin(incidents: Path) -> None:
    user, observation = is_turn_marker_eos(incidents / "glm")
    assert user[:2] == (260, "<|user|>")
    assert user.where == "before a user message, chat_template.jinja:3"
    assert observation[:2] == (262, "<|observation|>")
    assert observation.where == "before a tool message, chat_template.jinja:13"


@pytest.mark.parametrize("marker", [260, 262])
def test_glm_leaks_nothing_even_if_special_tokens_are_shown(incidents: Path, marker: int) -> None:
    tokenizer = load_tokenizer(incidents / "glm")
    conditions = stop_conditions(incidents / "glm", "vllm")
    decoder = StopSequenceDecoder(tokenizer, conditions, skip_special_tokens=False)
    chunk = decoder.feed([*tokenizer.encode("hi").ids, marker, *tokenizer.encode("!").ids])
    assert chunk.text + decoder.flush().text == "hi"


def test_glm_needs_transformers_5(incidents: Path) -> None:
    folder = incidents / "glm"
    assert version_gate_tokenizer_class(folder) == ">=5.0"
    refused = effective_tokenizer_class(folder, "4.57.6")
    assert (refused.name, refused.resolved) == (None, True)
    assert refused.error is not None
    assert refused.error.startswith("ValueError: Tokenizer class TokenizersBackend does not exist")
    new = {f.code: f.severity for f in inspect(folder, render=False).findings}
    old = inspect(folder, "transformers@4.57.6", render=False).findings
    for code in ("TOKENIZER_CLASS_REQUIRES_V5", "EXTRA_SPECIAL_TOKENS_LIST"):
        assert new[code] == "info"
        assert {f.code: f.severity for f in old}[code] == "error"


# --- Gemma 4 --------------------------------------------------------------------------------------


def test_gemma_has_an_id_more_in_one_file_and_its_template_in_another(incidents: Path) -> None:
    report = inspect(incidents / "gemma")
    assert "ADDED_TOKENS_DECODER_ABSENT" in report.codes
    assert "CHAT_TEMPLATE_MISSING" not in report.codes, "the file is loaded"
    assert report.sources["chat_template"] == "chat_template.jinja"
    assert "TOKENIZER_CLASS_UNKNOWN" not in report.codes
    assert stops(incidents / "gemma") == {(257, 259, 260)}


# --- Kimi-K2.6 ------------------------------------------------------------------------------------


def test_kimi_was_fixed_in_two_files_of_three(incidents: Path) -> None:
    folder = incidents / "kimi"
    report = inspect(folder)
    assert {"EOS_SOURCES_DISAGREE", "EOS_ENGINES_DISAGREE"} <= report.codes
    assert {"TOKENIZER_REMOTE_CODE", "TOKENIZER_JSON_MISSING"} <= report.codes
    # Not the one on this id and the other on that: both engines stop on both.
    found = {engine: effective_stop_tokens(folder, engine).ids for engine in ENGINES}
    assert found["vllm"] == found["sglang"] == {257, 258}
    assert found["transformers"] == {258}
    assert effective_stop_tokens(folder, "vllm").texts == {257: "[EOS]", 258: "<|im_end|>"}


def test_kimi_hides_its_quantisation_in_a_part(incidents: Path) -> None:
    folder = incidents / "kimi"
    ((path, value),) = find_nested_quantization_config(folder)
    assert path == "text_config.quantization_config"
    assert summarize_quant_config(value) == (
        "compressed-tensors num_bits=4 group_size=32 format=pack-quantized ignore_patterns=4 "
        "kv_cache_scheme=None"
    )
    assert {"QUANT_NESTED", "QUANT_KV_SCHEME_NULL"} <= inspect(folder, render=False).codes


# --- Qwen -----------------------------------------------------------------------------------------


def test_qwen_closes_its_turns_with_its_end_of_sequence(incidents: Path) -> None:
    report = inspect(incidents / "qwen")
    assert is_turn_marker_eos(incidents / "qwen") == []
    assert not {"EOS_TURN_PRIMER_IN_STOP_SET", "EOS_TERMINATOR_NOT_STOPPED"} & report.codes


def test_qwen_base_runs_on_with_the_template_of_its_sibling(incidents: Path) -> None:
    (found,) = [
        f
        for f in inspect(incidents / "qwen-base").findings
        if f.code == "EOS_TERMINATOR_NOT_STOPPED"
    ]
    assert found.severity == "error"
    assert set(found.engines) == set(ENGINES)
    assert found.evidence[0].ids == {258: "<|im_end|>"}


# --- DeepSeek, Phi-4, Command-R -------------------------------------------------------------------


def test_deepseek_has_its_tokens_in_tokenizer_json_alone(incidents: Path) -> None:
    folder = incidents / "deepseek"
    tokens = discover_added_tokens(folder)
    assert [token.content for token in tokens.values()][-1] == "<｜place▁holder▁no▁0｜>"
    assert tokens[260].special
    assert tokens[260].sources == ("tokenizer.json",)
    assert not tokens[258].special
    assert resolve_marker_to_id(folder, "<think>") == []
    report = inspect(folder)
    assert {"ADDED_TOKENS_DECODER_ABSENT", "STRUCTURAL_TOKEN_NOT_SPECIAL"} <= report.codes
    (markers,) = [f for f in report.findings if f.code == "STRUCTURAL_TOKEN_NOT_SPECIAL"]
    assert dict(markers.evidence[0].ids) == {258: "<｜User｜>", 259: "<｜Assistant｜>"}
    # Every engine stops on the marker that closes a turn.
    assert stops(folder) == {(257,)}


def test_phi_is_read_and_not_guessed_from_names(incidents: Path) -> None:
    folder = incidents / "phi"
    assert stops(folder) == {(258,)}
    assert "bos_token" in discover_added_tokens(folder)[256].sources
    codes = inspect(folder).codes
    assert not {"BOS_SOURCES_DISAGREE", "EOS_SOURCES_DISAGREE"} & codes


def test_command_r_prints_its_end_only_where_tokenizer_json_is_read_alone(incidents: Path) -> None:
    folder = incidents / "command-r"
    (drift,) = [f for f in inspect(folder).findings if f.code == "SPECIAL_FLAG_DRIFT"]
    assert drift.severity == "error"
    applied = discover_added_tokens(folder)
    bare = discover_added_tokens(folder, apply_tokenizer_config=False)
    assert (applied[258].special, bare[258].special) == (True, False)
    assert applied[258].is_disputed
    for apply, text in ((True, "hi"), (False, "hi<|im_end|>")):
        tokenizer = load_tokenizer(folder, apply_tokenizer_config=apply)
        assert tokenizer.decode([*tokenizer.encode("hi").ids, 258]) == text
