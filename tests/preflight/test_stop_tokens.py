"""The rules of each engine, as a table: what the files say, and on what each engine stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamdec.errors import StreamdecWarning
from streamdec.preflight import Source, effective_stop_tokens, inspect, stop_conditions
from streamdec.preflight.engine_versions import parse_engine
from tests.preflight.making import Parts, added, control

STOPS = json.loads((Path(__file__).parent / "data" / "stops.json").read_text("utf-8"))
"""Written by ``scripts/make_preflight_goldens.py``."""
SILENT: dict[str, Any] = {"model_type": "qwen2"}
"""A model type whose configuration class has the attribute, and None in it."""
NONE = "absent"


class Row(NamedTuple):
    """A snapshot and what follows."""

    tokenizer: str | None
    generation: Any
    """Its ``eos_token_id``; NONE: no such file; a str: the file's text."""
    config: dict[str, Any]
    stops: dict[str, set[int]]


ROWS = {
    "all agree": Row(
        "<|im_end|>",
        258,
        {**SILENT, "eos_token_id": 258},
        {name: {258} for name in ("transformers", "vllm", "sglang")},
    ),
    "each has another": Row(
        "<|endoftext|>",
        257,
        {**SILENT, "eos_token_id": 258},
        {
            "transformers": {257},
            "vllm": {256, 257},
            "sglang": {256, 257, 258},
        },
    ),
    "no generation_config.json": Row(
        "<|endoftext|>",
        NONE,
        {**SILENT, "eos_token_id": [257, 258]},
        {
            "transformers": {257, 258},
            "vllm": {256, 257, 258},
            "sglang": {256, 257, 258},
        },
    ),
    "a broken one counts as absent": Row(
        None,
        '{"eos_token_id": 257,}',
        {**SILENT, "eos_token_id": 258},
        {name: {258} for name in ("transformers", "vllm", "sglang")},
    ),
    "with a byte order mark too": Row(
        None,
        '\ufeff{"eos_token_id": 257}',
        {**SILENT, "eos_token_id": 258},
        {name: {258} for name in ("transformers", "vllm", "sglang")},
    ),
    "a null in it hides the config": Row(
        "<|endoftext|>",
        None,
        {**SILENT, "eos_token_id": 258},
        {"transformers": set(), "vllm": {256}, "sglang": {256, 258}},
    ),
    "a bare zero": Row(
        "<|endoftext|>",
        0,
        {**SILENT, "eos_token_id": 258},
        {
            "transformers": {0},
            "vllm": {0, 256},
            "sglang": {256, 258},
        },
    ),
    "a zero in a list": Row(None, [0], SILENT, {"transformers": {0}, "vllm": {0}, "sglang": {0}}),
    "a class default": Row(
        "<|endoftext|>",
        NONE,
        {"model_type": "llama"},
        {
            "transformers": set(),
            "transformers@4.57.6": {2},
            "vllm": {2, 256},
            "sglang": {2, 256},
        },
    ),
    "a class default beside generation_config.json": Row(
        "<|endoftext|>",
        258,
        {"model_type": "llama"},
        {"transformers": {258}, "vllm": {256, 258}, "sglang": {2, 256, 258}},
    ),
    "a null in the config is not a class default": Row(
        "<|endoftext|>",
        NONE,
        {"model_type": "llama", "eos_token_id": None},
        {"transformers": set(), "vllm": {256}, "sglang": {256}},
    ),
    "in the text part alone": Row(
        None,
        NONE,
        {"model_type": "acme_vl", "text_config": {"eos_token_id": 258}},
        {
            "transformers": {258},
            "vllm": {258},
            "sglang": {258},
        },
    ),
    "in the text part, with generation_config.json": Row(
        None,
        257,
        {"model_type": "acme_vl", "text_config": {"eos_token_id": 258}},
        {"transformers": {257}, "vllm": {257}, "sglang": {257, 258}},
    ),
    "the text part's class default": Row(
        None,
        NONE,
        {"model_type": "acme_vl", "text_config": {"model_type": "llama"}},
        {"transformers": set(), "vllm": {2}, "sglang": {2}},
    ),
    "a null at the top keeps SGLang from the text part": Row(
        None,
        257,
        {"model_type": "acme_vl", "eos_token_id": None, "text_config": {"eos_token_id": 258}},
        {"sglang": {257}},
    ),
    "a value that is not an id is left out": Row(
        None,
        [258, -1, True, "257", 1.5, None, 2**32],
        SILENT,
        {name: {258} for name in ("transformers", "vllm", "sglang")},
    ),
}


def _written(row: Row, folder: Path) -> Path:
    parts = control()
    assert parts.tokenizer_config is not None
    parts.tokenizer_config["eos_token"] = row.tokenizer
    parts.config = row.config
    if row.generation == NONE:
        parts.generation = None
    elif isinstance(row.generation, str):
        parts.generation = None
        parts.others["generation_config.json"] = row.generation
    else:
        parts.generation = {"eos_token_id": row.generation}
    return parts.write(folder)


@pytest.mark.parametrize("name", ROWS)
def test_the_rules_decide_the_stop_tokens(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    folder = _written(row, tmp_path)
    found = {engine: set(effective_stop_tokens(folder, engine).ids) for engine in row.stops}
    assert found == row.stops


@pytest.mark.parametrize("index", range(len(STOPS["entries"])))
def test_the_fall_back_is_that_of_the_library(index: int, tmp_path: Path) -> None:
    """Without a tokenizer vLLM stops on the ids of the configuration that transformers loads."""
    entry = STOPS["entries"][index]
    for name, content in entry["files"].items():
        (tmp_path / name).write_text(json.dumps(content))
    engines = entry["stops"]
    found = {name: sorted(effective_stop_tokens(tmp_path, name).ids) for name in engines}
    assert found == engines


def test_the_class_default_of_a_text_part_is_reported(tmp_path: Path) -> None:
    row = Row(
        "<|im_end|>", 258, {"model_type": "aya_vision", "vocab_size": 9}, {"sglang": {255001}}
    )
    folder = _written(row, tmp_path)
    assert effective_stop_tokens(folder, "sglang").ids == {258, 255001}
    assert effective_stop_tokens(folder, "vllm").ids == {258}
    report = inspect(folder, render=False)
    assert {"EOS_CLASS_DEFAULT_IN_EFFECT", "EOS_ENGINES_DISAGREE"} <= report.codes


def test_each_id_has_its_sources(tmp_path: Path) -> None:
    folder = _written(Row("<|endoftext|>", [256, 258], {"model_type": "llama"}, {}), tmp_path)
    found = effective_stop_tokens(folder, "sglang@0.5.10")
    assert found.sources == {
        2: (Source("class_default", "transformers: llama"),),
        256: (
            Source("generation_config", "generation_config.json", "/eos_token_id/0"),
            Source("tokenizer", "tokenizer_config.json", "/eos_token", "<|endoftext|>"),
        ),
        258: (Source("generation_config", "generation_config.json", "/eos_token_id/1"),),
    }
    assert found.texts[258] == "<|im_end|>"
    assert found.resolved
    assert (found.engine, found.version) == ("sglang", "0.5.10")


@pytest.mark.parametrize(
    ("engine", "ids"),
    [
        ("sglang", {257, 258, 260, 261}),
        ("sglang@0.5.23", {257, 258, 260, 261}),
        ("sglang@0.5.10", {257, 258}),
        ("sglang@0.5.11", {257, 258}),
        ("vllm", {258}),
    ],
)
def test_sglang_stops_on_texts_of_its_own_that_are_added_tokens(
    engine: str, ids: set[int], tmp_path: Path
) -> None:
    def change(parts: Parts) -> None:
        parts.own[1]["content"] = "<|eom_id|>"
        parts.own.append({"id": 260, **added("<|content_model_end_sampling|>")})
        parts.own.append({"id": 261, **added("<|ifm|im_end|>", special=False)})
        parts.decoder.clear()
        parts.say(added_tokens_decoder={})

    folder = control(change).write(tmp_path)
    assert effective_stop_tokens(folder, engine).ids == ids


def test_an_end_of_sequence_without_an_id_is_unresolved(tmp_path: Path) -> None:
    parts = control()
    parts.tokenizer = None
    parts.say(eos_token="</s>")
    folder = parts.write(tmp_path)
    found = effective_stop_tokens(folder, "vllm")
    assert found.ids == {258}
    assert not found.resolved
    assert [source.text for source in found.unresolved] == ["</s>"]
    assert not found.unresolved[0].resolved
    assert effective_stop_tokens(folder, "transformers").resolved


@pytest.mark.parametrize("said", [{}, {"eos_token": None}])
def test_a_tokenizer_without_files_may_have_an_unknown_end_of_sequence(
    said: dict[str, None], tmp_path: Path
) -> None:
    """A SentencePiece model has one inside. Where a file says that there is none, there is none."""
    parts = control()
    parts.tokenizer, parts.tokenizer_config = None, said
    parts.config = parts.generation = None
    parts.others["tokenizer.model"] = b"\n\x05"
    folder = parts.write(tmp_path)
    found = effective_stop_tokens(folder, "vllm")
    assert found.ids == set()
    assert found.resolved == bool(said)
    assert ("EOS_MISSING_EVERYWHERE" in inspect(folder).codes) == bool(said)


def test_stop_conditions_that_may_lack_a_stop_warn(tmp_path: Path) -> None:
    def change(parts: Parts) -> None:
        parts.tokenizer = None
        parts.tokenizer_config = {"eos_token": "<|im_end|>"}

    folder = control(change).write(tmp_path)
    assert not effective_stop_tokens(folder, "vllm").resolved
    with pytest.warns(StreamdecWarning, match=r"vllm may stop on more ids than these: 258"):
        conditions = stop_conditions(folder)
    assert 258 in conditions.eos_token_ids


@pytest.mark.parametrize("name", ["", "llama.cpp", "vllm@", "vllm@new", "vllm 0.11", "@1"])
def test_an_engine_that_is_not_known_is_a_value_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sglang@0\.5\.10"):
        effective_stop_tokens(tmp_path, name)


@pytest.mark.parametrize(
    ("name", "rules_of"),
    [
        ("vllm", "0.33.0"),
        ("VLLM@v0.19.1.post1", "0.19.1"),
        ("vllm@0.9", "0.19.1"),
        ("vllm@0.33.0rc1", "0.33.0"),
        ("transformers@6", "5.24.0"),
    ],
)
def test_the_rules_are_those_of_the_nearest_version_that_was_read(name: str, rules_of: str) -> None:
    assert parse_engine(name).rules_of == rules_of
