"""Random corruptions of snapshots: findings, never an error, and never much time or memory."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.preflight import (
    cross_ref_files,
    discover_added_tokens,
    effective_template_kwargs,
    effective_tokenizer_class,
    find_nested_quantization_config,
    inspect,
    resolve_marker_to_id,
    stop_conditions,
    summarize_quant_config,
    version_gate_tokenizer_class,
)
from streamdec.preflight.examples import EXAMPLES, write_example
from streamdec.preflight.preflight_report import RULES
from tests.preflight.changes import CASES
from tests.preflight.making import control, shared_snapshots

# --- changes --------------------------------------------------------------------------------------

NAMES = (
    *("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json"),
    *("hf_quant_config.json", "additional_chat_templates/tool.jinja"),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**32, 2**64, 10**400, 1.5, float("nan"), float("inf")),
    *("", "\ud800", "\0", "<|im_end|>", "é" * 50, [], [[]], [0, "x", None, True, -5, 258], {}),
    *({"content": "<|im_end|>"}, {"content": None}, {"content": "x", "special": "yes"}),
    *([{"name": 1, "template": 2}], [{"name": "default", "template": "{{ x"}], {"a": {"a": []}}),
    *({"AutoTokenizer": [None, "x.Y"]}, ["x.Y", None], "{% for", "{{ 'a' * 10 ** 9 }}"),
)
DEEP: list[Any] = []
for _ in range(700):
    DEEP = [DEEP]
ODD = (*ODD, DEEP, {"a": DEEP}, [1] * 300, "x" * 3000)
KEYS = (
    *("eos_token_id", "eos_token", "bos_token_id", "pad_token", "added_tokens_decoder"),
    *("chat_template", "extra_special_tokens", "additional_special_tokens", "auto_map"),
    *("text_config", "quantization_config", "architectures", "tokenizer_class", "added_tokens"),
    *("model", "vocab", "model_type", "stop_strings", "kv_cache_scheme", "add_bos_token"),
)
BYTES = (
    *(b"", b"\xef\xbb\xbf{}", b"\x00" * 64, b"\xff\xfe{", b"[" * 5000, b"null", b"[]"),
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    b'{"eos_token_id": ' + b"9" * 6000 + b"}",
)

paths = st.lists(st.one_of(st.sampled_from(KEYS), st.integers(0, 3)), min_size=1, max_size=4)
names = st.sampled_from(NAMES)
corruptions = st.lists(
    st.one_of(
        st.tuples(st.just("bytes"), names, st.sampled_from(BYTES)),
        st.tuples(st.just("cut"), names, st.floats(0, 1)),
        st.tuples(st.just("flip"), names, st.floats(0, 1), st.integers(0, 255)),
        st.tuples(st.just("set"), names, paths, st.sampled_from(ODD)),
        st.tuples(st.just("folder"), names),
    ),
    min_size=1,
    max_size=4,
)
"""What is done to a folder, one thing after the other."""


def corrupt(folder: Path, what: tuple[Any, ...]) -> None:
    """Make one change; nothing if there is no such file."""
    kind, name, *rest = what
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        return
    content = path.read_bytes() if path.exists() else b""
    if kind == "bytes":
        path.write_bytes(rest[0])
    elif kind == "cut":
        path.write_bytes(content[: int(rest[0] * len(content))])
    elif kind == "flip" and content:
        place = int(rest[0] * (len(content) - 1))
        path.write_bytes(content[:place] + bytes([rest[1]]) + content[place + 1 :])
    elif kind == "folder":
        path.unlink(missing_ok=True)
        path.mkdir()
    elif kind == "set":
        try:
            data = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            return
        path.write_bytes(json.dumps(_set(data, rest[0], rest[1])).encode())


def _set(data: Any, path: list[Any], value: Any) -> Any:
    """``data`` with ``value`` at the path, or at the part of the path that exists."""
    place = data
    for step in path[:-1]:
        if isinstance(place, dict):
            place = place.setdefault(str(step), {})
        elif isinstance(place, list) and isinstance(step, int) and step < len(place):
            place = place[step]
        else:
            return data
    if isinstance(place, dict):
        place[str(path[-1])] = value
    elif isinstance(place, list):
        place.append(value)
    return data


# --- the law --------------------------------------------------------------------------------------

ENGINES = ("vllm", "sglang@0.5.10", "transformers@4.57.6")


def _bases() -> list[str | Path]:
    """The codes of all findings, examples, and small real snapshots, if there are any."""
    real = [p for p in shared_snapshots() if (p / "tokenizer.json").exists()]
    return [*CASES, *EXAMPLES, *(p for p in real if (p / "tokenizer.json").stat().st_size < 50_000)]


def _write_corrupted(base: str | Path, changes: list[tuple[Any, ...]], folder: Path) -> Path:
    """Write a base with ``changes``, and return its folder."""
    if base in EXAMPLES:
        folder = write_example(str(base), folder)
    elif isinstance(base, str):
        control(CASES[base]).write(folder)
    else:
        for path in base.rglob("*"):  # without the modes, which may forbid writing
            if path.is_file():
                target = folder / path.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for change in changes:
        corrupt(folder, change)
    return folder


@pytest.mark.filterwarnings("ignore:.*may stop on more ids than these")
@given(st.deferred(lambda: st.sampled_from(_bases())), corruptions)
def test_every_corrupted_folder_has_a_report_and_every_question_an_answer(
    base: str | Path, changes: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = _write_corrupted(base, changes, Path(name))
        report = inspect(folder, engines=ENGINES, render=False)
        json.dumps(report.to_dict(), allow_nan=False)
        assert inspect(folder, engines=ENGINES, render=False).to_dict() == report.to_dict()
        assert all(str(finding) for finding in report.findings)
        for engine in ENGINES:
            stop_conditions(folder, engine)
            kept, dropped, refused = effective_template_kwargs(folder, engine, {"a": 1})
            assert [*kept, *dropped, *refused] == ["a"]
        for token_id, token in discover_added_tokens(folder).items():
            assert token_id in resolve_marker_to_id(folder, token.content)
        assert all(RULES[finding.code].compares_files for finding in cross_ref_files(folder))
        for version in ("4.57.6", "5.24.0"):
            assert str(effective_tokenizer_class(folder, version))
        assert version_gate_tokenizer_class(folder) in (">=4.0", ">=5.0")
        summary = summarize_quant_config(folder)
        nested = find_nested_quantization_config(folder)
        assert all(summarize_quant_config(found.value) in summary for found in nested)
