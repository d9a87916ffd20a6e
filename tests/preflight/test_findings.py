"""Every finding fires in a snapshot made for it, and not in the control."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.preflight import Report, inspect
from streamdec.preflight.preflight_report import SEVERITIES
from streamdec.preflight.rules import RULES
from tests.preflight.making import CHATML, Parts, added, control
from tests.support.pages import ROOT

NETWORK = {"COMMIT_NOT_REACHABLE", "COMMIT_NOT_HEAD"}
"""Only the hub can say so."""


def _config(**values: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.config.update(values) if parts.config is not None else None


def _generation(**values: Any) -> Callable[[Parts], None]:
    return lambda p: p.generation.update(values) if p.generation is not None else None


def _say(**values: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.say(**values)


def _file(name: str, content: str | bytes | dict[str, Any]) -> Callable[[Parts], None]:
    return lambda parts: parts.others.update({name: content})


def _both(*changes: Callable[[Parts], object]) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        for each in changes:
            each(parts)

    return change


def _without(*names: str) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        for name in names:
            setattr(parts, name, None)

    return change


def _drop(*keys: str) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        for key in keys:
            assert parts.tokenizer_config is not None
            parts.tokenizer_config.pop(key, None)

    return change


def _flag(index: int, *, special: bool) -> Callable[[Parts], None]:
    return lambda parts: parts.own[index].update(special=special)


def _template(text: str) -> Callable[[Parts], None]:
    return _say(chat_template=text)


def _entry(token_id: int, content: str, *, special: bool = True) -> Callable[[Parts], None]:
    return lambda parts: parts.decoder.update({str(token_id): added(content, special=special)})


def _own(token_id: int, content: str, *, special: bool = True) -> Callable[[Parts], None]:
    return lambda parts: parts.own.append({"id": token_id, **added(content, special=special)})


QUANT = {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}}
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
GLM = (
    "{%- for m in messages %}{{ '<|im_start|>' if m.role == 'user' else '<|pad|>' }}{{ m.content }}"
    "{%- endfor %}{% if add_generation_prompt %}<|pad|>{% endif %}"
)

CASES: dict[str, tuple[str, Callable[[Parts], object]]] = {
    "EOS_SOURCES_DISAGREE": ("info", _generation(eos_token_id=[256, 258])),
    "EOS_ENGINES_DISAGREE": ("warning", _say(eos_token="<|endoftext|>")),
    "EOS_TERMINATOR_NOT_STOPPED": (
        "error",
        _both(_say(eos_token="<|pad|>"), _config(eos_token_id=259), _generation(eos_token_id=259)),
    ),
    "EOS_TURN_PRIMER_IN_STOP_SET": (
        "info",
        _both(_template(GLM), _generation(eos_token_id=[257, 258])),
    ),
    "EOS_MISSING_EVERYWHERE": (
        "error",
        _both(_drop("eos_token"), _config(eos_token_id=None), _generation(eos_token_id=None)),
    ),
    "EOS_TOKEN_NOT_IN_VOCAB": ("error", _say(eos_token="</s>")),
    "EOS_ID_UNKNOWN": ("error", _generation(eos_token_id=[258, 900])),
    "EOS_CLASS_DEFAULT_IN_EFFECT": (
        "warning",
        lambda parts: parts.config.pop("eos_token_id") if parts.config else None,
    ),
    "EOS_TEXT_CONFIG_ONLY": (
        "warning",
        lambda parts: setattr(
            parts, "config", {"model_type": "gemma3", "text_config": {"eos_token_id": 258}}
        ),
    ),
    "EOS_ZERO_DROPPED": ("warning", _generation(eos_token_id=0)),
    "GENERATION_CONFIG_MISSING": ("info", _without("generation")),
    "GENERATION_STOP_STRINGS_IGNORED": ("warning", _generation(stop_strings=["END"])),
    "BOS_SOURCES_DISAGREE": (
        "warning",
        _both(_say(bos_token="<|endoftext|>"), _generation(bos_token_id=257)),
    ),
    "PAD_EQUALS_EOS": ("info", _say(pad_token="<|im_end|>")),
    "SPECIAL_FLAG_DRIFT": ("error", _flag(2, special=False)),
    "ADDED_TOKEN_CONTENT_DRIFT": ("error", _entry(259, "<|padding|>")),
    "ADDED_TOKEN_ID_DRIFT": (
        "warning",
        lambda parts: parts.decoder.update({"261": parts.decoder.pop("259")}),
    ),
    "ADDED_TOKEN_ONLY_IN_CONFIG": ("warning", _entry(260, "<tool>")),
    "ADDED_TOKEN_ID_NOT_HONOURED": ("error", _both(_own(270, "<gap>"), _entry(270, "<gap>"))),
    "ADDED_TOKEN_DUPLICATE_CONTENT": ("warning", _own(260, "<|pad|>")),
    "ADDED_TOKENS_DECODER_ABSENT": ("info", _drop("added_tokens_decoder")),
    "ADDED_TOKENS_DECODER_SHAPE": ("error", _say(added_tokens_decoder=[added("<|im_end|>")])),
    "EXTRA_SPECIAL_TOKENS_LIST": ("info", _say(extra_special_tokens=["<|im_start|>"])),
    "EXTRA_SPECIAL_SHADOWS_ADDITIONAL": (
        "warning",
        _say(extra_special_tokens=["<|im_start|>"], additional_special_tokens=["<|pad|>"]),
    ),
    "EXTRA_SPECIAL_NOT_SKIPPED": (
        "warning",
        _both(
            _own(260, "<u>", special=False),
            _entry(260, "<u>", special=False),
            _say(additional_special_tokens=["<u>"]),
        ),
    ),
    "SPECIAL_TOKENS_MAP_OVERRIDES": (
        "warning",
        _both(
            _drop("added_tokens_decoder"),
            _file("special_tokens_map.json", {"eos_token": "<|endoftext|>"}),
        ),
    ),
    "SPECIAL_TOKENS_MAP_STALE": (
        "info",
        _file("special_tokens_map.json", {"eos_token": added("<|endoftext|>")}),
    ),
    "STRUCTURAL_TOKEN_NOT_SPECIAL": (
        "info",
        _both(_flag(1, special=False), _entry(257, "<|im_start|>", special=False)),
    ),
    "TEMPLATE_MARKER_NOT_A_TOKEN": (
        "warning",
        _template(CHATML.replace("'<|im_start|>assistant", "'<|im_begin|>assistant")),
    ),
    "FILE_INVALID_JSON": ("error", _file("special_tokens_map.json", b"\xef\xbb\xbf{}")),
    "FILE_LFS_POINTER": ("error", _both(_without("tokenizer"), _file("tokenizer.json", LFS))),
    "FILE_TOO_LARGE": ("error", _file("chat_template.jinja", b" " * (2**20 + 1))),
    "FILE_UNREADABLE": ("error", _file("chat_template.jinja", b"\xff\xfe{")),
    "TOKENIZER_JSON_INVALID": (
        "error",
        lambda parts: parts.tokenizer.update(model={"type": "none"}) if parts.tokenizer else None,
    ),
    "TOKENIZER_JSON_MISSING": ("error", _without("tokenizer")),
    "TOKENIZER_CLASS_REQUIRES_V5": ("info", _say(tokenizer_class="TokenizersBackend")),
    "TOKENIZER_CLASS_UNKNOWN": ("warning", _say(tokenizer_class="AcmeTokenizerFast")),
    "TOKENIZER_REMOTE_CODE": ("warning", _say(auto_map=["tokenization_acme.Acme", None])),
    "TOKENIZER_MISTRAL_NATIVE": ("info", _file("tekken.json", "{}")),
    "ADD_BOS_EOS_FLAG_IGNORED": ("info", _say(add_bos_token=True)),
    "CHAT_TEMPLATE_MISSING": ("warning", _drop("chat_template")),
    "CHAT_TEMPLATE_BYPASSED": ("info", _config(model_type="gpt_oss")),
    "CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE": (
        "warning",
        _file("chat_template.jinja", CHATML.replace("assistant", "model")),
    ),
    "CHAT_TEMPLATE_INLINE_LOST": ("error", _file("additional_chat_templates/rag.jinja", CHATML)),
    "CHAT_TEMPLATE_NO_DEFAULT": (
        "error",
        _say(chat_template=[{"name": "tool_use", "template": CHATML}]),
    ),
    "CHAT_TEMPLATE_NAMED": (
        "info",
        _say(chat_template=[{"name": n, "template": CHATML} for n in ("default", "tool_use")]),
    ),
    "CHAT_TEMPLATE_DEFAULT_COLLISION": (
        "warning",
        _both(
            _file("chat_template.jinja", CHATML),
            _file("additional_chat_templates/default.jinja", CHATML),
        ),
    ),
    "CHAT_TEMPLATE_LEGACY_JSON": (
        "warning",
        _file("chat_template.json", {"chat_template": CHATML}),
    ),
    "CHAT_TEMPLATE_SYNTAX_ERROR": ("error", _template("{% for m in messages %}{{ m.content }}")),
    "CHAT_TEMPLATE_UNKNOWN_NAME": (
        "error",
        _template(CHATML + "{% if tools %}{{ tools | from_json }}{% endif %}"),
    ),
    "CHAT_TEMPLATE_SANDBOX_VIOLATION": (
        "error",
        _template(CHATML + "{{ messages.__class__.__mro__ }}"),
    ),
    "CHAT_TEMPLATE_RESOURCE_LIMIT": ("error", _template(CHATML + "{{ 'a' * 4000000000 }}")),
    "CHAT_TEMPLATE_IGNORES_GENERATION_PROMPT": ("info", _template(CHATML.partition("{%- if")[0])),
    "CHAT_TEMPLATE_CLOCK_DEPENDENT": ("warning", _template("{{ strftime_now('%d') }}" + CHATML)),
    "CHAT_TEMPLATE_NEEDS_KWARGS": (
        "info",
        _template(CHATML + "{% if enable_thinking %}!{% endif %}"),
    ),
    "CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS": (
        "info",
        _template(
            CHATML + "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in "
            "c.function.arguments.items() %}{{ k }}{% endfor %}{% endfor %}{% endfor %}"
        ),
    ),
    "CHAT_TEMPLATE_NONE_CONTENT_LEAK": (
        "warning",
        _template(CHATML.replace("+ m['content'] +", "~ m['content'] ~")),
    ),
    "CHAT_TEMPLATE_LIST_CONTENT_REPR": (
        "warning",
        _template(CHATML.replace("+ m['content'] +", "~ m['content'] ~")),
    ),
    "QUANT_NESTED": ("warning", _config(text_config={"quantization_config": QUANT})),
    "QUANT_SIDECAR_ONLY": (
        "info",
        _file("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}}),
    ),
    "QUANT_MULTIPLE_DISAGREE": (
        "error",
        _config(quantization_config={"quant_method": "fp8"}, compression_config=QUANT),
    ),
    "QUANT_NO_METHOD": ("warning", _config(quantization_config={"bits": 4})),
    "QUANT_KV_SCHEME_NULL": (
        "info",
        _config(quantization_config={**QUANT, "kv_cache_scheme": None}),
    ),
}
RENDERED = {
    "EOS_TERMINATOR_NOT_STOPPED",
    "EOS_TURN_PRIMER_IN_STOP_SET",
    "CHAT_TEMPLATE_SANDBOX_VIOLATION",
    "CHAT_TEMPLATE_RESOURCE_LIMIT",
    "CHAT_TEMPLATE_IGNORES_GENERATION_PROMPT",
    "CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS",
    "CHAT_TEMPLATE_NONE_CONTENT_LEAK",
    "CHAT_TEMPLATE_LIST_CONTENT_REPR",
}
"""Those for which the template is rendered, which takes a child process."""
MADE_OTHERWISE = {"FILE_OUTSIDE_FOLDER", "CHAT_TEMPLATE_NOT_INSPECTED", "COMMIT_UNVERIFIED"}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return inspect(control().write(tmp_path_factory.mktemp("control")))


def test_nothing_is_found_in_the_control(clean: Report) -> None:
    assert [str(finding) for finding in clean.findings] == []
    assert clean.worst is None


@pytest.mark.parametrize("code", CASES)
def test_a_finding_fires_in_the_snapshot_made_for_it(
    code: str, tmp_path: Path, clean: Report
) -> None:
    severity, change = CASES[code]
    report = inspect(control(change).write(tmp_path), render=code in RENDERED)
    found = [finding for finding in report.findings if finding.code == code]
    assert [finding.severity for finding in found][:1] == [severity], report.findings
    assert all(each.engines and each.action and each.evidence for each in found)
    assert code not in clean.codes
    json.dumps(report.to_dict(), allow_nan=False)


def test_every_rule_has_a_snapshot() -> None:
    assert set(CASES) | NETWORK | MADE_OTHERWISE == set(RULES)


def test_a_code_is_declared_once_and_whole() -> None:
    data = tomllib.loads((ROOT / "streamdec" / "preflight" / "rules.toml").read_text("utf-8"))
    assert [row["code"] for row in data["rules"]] == list(RULES)
    for rule in RULES.values():
        assert rule.severity in SEVERITIES
        assert rule.when
        assert not rule.when.endswith(".")
        assert rule.action.endswith(".")
        assert rule.engines


def test_the_gravest_come_first(tmp_path: Path) -> None:
    change = _both(CASES["PAD_EQUALS_EOS"][1], CASES["EOS_ID_UNKNOWN"][1], _drop("chat_template"))
    report = inspect(control(change).write(tmp_path), render=False)
    order = [SEVERITIES.index(finding.severity) for finding in report.findings]
    assert order == sorted(order, reverse=True)
    assert report.worst == "error"
    assert {f.code for f in report.at_least("warning")} < report.codes


def test_evidence_names_the_file_the_place_and_the_token(tmp_path: Path) -> None:
    report = inspect(control(_flag(2, special=False)).write(tmp_path), render=False)
    [finding] = [f for f in report.findings if f.code == "SPECIAL_FLAG_DRIFT"]
    [evidence] = finding.evidence
    assert evidence.file == "tokenizer_config.json"
    assert evidence.pointer == "/added_tokens_decoder/258"
    assert evidence.ids == {258: "<|im_end|>"}
    assert evidence.value == {"tokenizer.json": False, "tokenizer_config.json": True}
    assert "tokenization_utils_tokenizers.py" in str(finding.reference[0])


@pytest.mark.parametrize(
    ("index", "token_id", "name"), [(2, 258, "<|im_end|>"), (0, 256, "<|endoftext|>")]
)
def test_a_drift_of_the_flag_is_grave_where_it_is_seen(
    index: int, token_id: int, name: str, tmp_path: Path
) -> None:
    """The one is a stop id, the other is nothing."""
    report = inspect(control(_flag(index, special=False)).write(tmp_path), render=False)
    [finding] = [f for f in report.findings if f.code == "SPECIAL_FLAG_DRIFT"]
    assert finding.severity == ("error" if token_id == 258 else "warning")
    assert finding.evidence[0].ids == {token_id: name}


@pytest.mark.parametrize("is_built", [False, True])
def test_what_was_special_once_is_skipped_on(is_built: bool, tmp_path: Path) -> None:
    """But not by a class for which it never was."""
    change = _entry(257, "<|im_start|>", special=False)
    change = _both(change, _config(model_type="qwen2")) if is_built else change
    report = inspect(control(change).write(tmp_path), render=False)
    [finding] = [f for f in report.findings if f.code == "SPECIAL_FLAG_DRIFT"]
    note = "effective for transformers: special=false"
    assert finding.evidence[0].note == (note if is_built else f"{note}, and yet skipped")
    loaded = load_tokenizer(tmp_path, fast="off")
    assert (loaded.decode([257]) == "") != is_built


@pytest.mark.parametrize("key", ["extra_special_tokens", "additional_special_tokens"])
def test_a_map_that_is_not_read_may_list_others(key: str, tmp_path: Path) -> None:
    def codes(listed: list[str]) -> frozenset[str]:
        stale = _file("special_tokens_map.json", {key: listed})
        same = _say(additional_special_tokens=["<|im_start|>"])
        return inspect(control(_both(same, stale)).write(tmp_path), render=False).codes

    assert codes(["<|im_start|>"]) == set()
    assert codes(["<|im_start|>", "<|pad|>"]) == {"SPECIAL_TOKENS_MAP_STALE"}
    assert codes(["<|pad|>"]) == {"SPECIAL_TOKENS_MAP_STALE"}


def test_named_extra_tokens_hide_no_others(tmp_path: Path) -> None:
    """Transformers ignores additional_special_tokens beside a list, and not beside names."""
    parts = control(
        _say(extra_special_tokens={"img": "<|pad|>"}, additional_special_tokens=["<new>"])
    )
    assert "EXTRA_SPECIAL_SHADOWS_ADDITIONAL" not in inspect(parts.write(tmp_path)).codes
    loaded = load_tokenizer(tmp_path, fast="off")
    assert loaded.token_to_id("<new>") == 260


def test_a_token_with_a_role_has_no_drift_where_the_role_makes_it_special(tmp_path: Path) -> None:
    parts = control(_entry(258, "<|im_end|>", special=False))
    assert "SPECIAL_FLAG_DRIFT" not in inspect(parts.write(tmp_path), render=False).codes


@pytest.mark.parametrize("engine", ["transformers@4.57.6", "vllm@0.11.1"])
def test_what_only_old_versions_refuse_is_an_error_for_them_alone(
    engine: str, tmp_path: Path
) -> None:
    change = _both(CASES["TOKENIZER_CLASS_REQUIRES_V5"][1], CASES["EXTRA_SPECIAL_TOKENS_LIST"][1])
    folder = control(change).write(tmp_path)
    for asked, severity in ((engine, "error"), ("sglang@0.5.10", "info")):
        report = inspect(folder, engines=(asked,), render=False)
        assert {f.code: f.severity for f in report.findings} == {
            "TOKENIZER_CLASS_REQUIRES_V5": severity,
            "EXTRA_SPECIAL_TOKENS_LIST": severity,
        }


def test_a_class_that_builds_from_the_vocabulary_loses_tokens(tmp_path: Path) -> None:
    """Qwen2Tokenizer takes the added tokens that the config declares, and no others."""
    change = _both(_config(model_type="qwen2"), lambda parts: parts.decoder.pop("259"))
    change = _both(change, _drop("pad_token"))
    report = inspect(control(change).write(tmp_path), render=False)
    [finding] = [f for f in report.findings if f.code == "ADDED_TOKEN_ID_NOT_HONOURED"]
    assert finding.evidence[0].ids == {259: "<|pad|>"}
    assert "Qwen2Tokenizer" in finding.evidence[0].note


def test_an_unknown_name_in_a_branch_that_asks_for_it_is_none(tmp_path: Path) -> None:
    guarded = "{% if helper is defined %}{{ helper() }}{% endif %}"
    report = inspect(control(_template(CHATML + guarded)).write(tmp_path), render=False)
    assert report.codes == {"CHAT_TEMPLATE_NEEDS_KWARGS"}


def test_without_jinja2_the_report_says_that_the_template_was_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    report = inspect(control().write(tmp_path))
    assert report.codes == {"CHAT_TEMPLATE_NOT_INSPECTED"}
    assert "streamdec[chat]" in report.sources["chat_template_inspected"]


def test_a_process_that_cannot_be_started_is_no_fault_of_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    [finding] = inspect(control().write(tmp_path)).findings
    assert (finding.code, finding.severity) == ("CHAT_TEMPLATE_NOT_INSPECTED", "warning")
    assert "temporarily unavailable" in finding.evidence[0].note


def test_a_named_template_is_rendered_too(tmp_path: Path) -> None:
    hostile = CHATML + "{{ 'a' * 4000000000 }}"
    listed = [{"name": "default", "template": CHATML}, {"name": "rag", "template": hostile}]
    report = inspect(control(_say(chat_template=listed)).write(tmp_path))
    [finding] = [f for f in report.findings if f.severity == "error"]
    assert finding.code == "CHAT_TEMPLATE_RESOURCE_LIMIT"
    assert finding.evidence[0].pointer == "/chat_template/1/template"


def test_a_fault_that_only_some_conversations_meet_names_one(tmp_path: Path) -> None:
    """Kimi K2's own template appends to a list where a tool is called."""
    template = CHATML + (
        "{% set seen = [] %}{% for m in messages %}{% if m.tool_calls %}"
        "{% set _ = seen.append(m) %}{% endif %}{% endfor %}"
    )
    report = inspect(control(_template(template)).write(tmp_path))
    [finding] = [f for f in report.findings if f.severity == "error"]
    assert finding.code == "CHAT_TEMPLATE_SANDBOX_VIOLATION"
    assert finding.evidence[0].note.startswith("a call of a tool: ")
    assert finding.evidence[0].line == 1


@pytest.mark.parametrize("content", ["none", "call_none"])
def test_null_content_is_tried_with_and_without_a_call(content: str, tmp_path: Path) -> None:
    """What OpenAI's API gives for a message that only calls tools has null content."""
    only_calls = "{% if m.tool_calls %}{{ m.content }}{% endif %}"
    leak = "{{ m.content }}" if content == "none" else only_calls
    template = "{% for m in messages %}" + leak + "{% endfor %}{{ add_generation_prompt }}"
    report = inspect(control(_template(template)).write(tmp_path))
    assert "CHAT_TEMPLATE_NONE_CONTENT_LEAK" in report.codes


def test_a_folder_of_the_hubs_cache_is_not_verified(tmp_path: Path) -> None:
    parts = control()
    folder = tmp_path / "models--a--b" / "snapshots" / ("0f" * 20)
    assert inspect(parts.write(folder), render=False).codes == {"COMMIT_UNVERIFIED"}


def test_sources_tell_which_file_won(tmp_path: Path) -> None:
    change = _both(CASES["SPECIAL_TOKENS_MAP_OVERRIDES"][1], _file("chat_template.jinja", CHATML))
    sources = inspect(control(change).write(tmp_path), render=False).sources
    assert sources["eos_token"] == "special_tokens_map.json"
    assert sources["pad_token"] == "tokenizer_config.json"
    assert sources["chat_template"] == "chat_template.jinja"
    assert sources["generation_config"] == "generation_config.json"
    assert sources["tokenizer_class"].startswith("tokenizer_config.json: TokenizersBackend")


def test_sources_tell_which_files_are_read_at_all(tmp_path: Path) -> None:
    sources = inspect(control().write(tmp_path / "a"), render=False).sources
    assert sources["added_tokens"] == "tokenizer.json, then tokenizer_config.json"
    assert "quantization_config" not in sources
    legacy = _both(_drop("added_tokens_decoder"), _file("added_tokens.json", {"<x>": 260}))
    quantized = _both(legacy, CASES["QUANT_NESTED"][1], CASES["QUANT_SIDECAR_ONLY"][1])
    sources = inspect(control(quantized).write(tmp_path / "b"), render=False).sources
    assert sources["added_tokens"] == "tokenizer.json, then added_tokens.json"
    assert sources["quantization_config"] == "hf_quant_config.json: quantization"


def test_each_special_token_tells_whether_its_id_is_known(tmp_path: Path) -> None:
    parts = control()
    known = inspect(parts.write(tmp_path / "known"), render=False).special_tokens["eos_token"]
    parts.tokenizer = None
    parts.say(eos_token="</s>")
    unknown = inspect(parts.write(tmp_path / "unknown"), render=False).special_tokens["eos_token"]
    assert asdict(known) == {
        "text": "<|im_end|>",
        "id": 258,
        "resolved": True,
        "source": "tokenizer_config.json",
        "resolved_by": "tokenizer.json",
    }
    assert (unknown.id, unknown.resolved) == (None, False)


@pytest.mark.parametrize("engines", [(), ("vlllm",), ("vllm@new",), ("vllm@",)])
def test_an_engine_that_is_not_known_is_refused(engines: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"engine|vllm"):
        inspect(control().write(tmp_path), engines=engines)
