"""The answer of a report, its text, folders of models, and the models of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamdec import load_tokenizer
from streamdec.errors import TokenizerLoadError
from streamdec.preflight import effective_stop_tokens, inspect, is_turn_marker_eos
from streamdec.preflight.examples import write_example
from tests.cli.running import run
from tests.preflight.changes import (
    CASES,
    CLOSED_TWICE,
    METASPACE,
    both,
    config,
    decoder,
    ending,
    generation,
    pieces,
    say,
    template,
    without,
)
from tests.preflight.making import CHATML, Parts, control

ALL = "vLLM, SGLang and transformers"
CLOSING = "stop at the template's end of turn, 258 <|im_end|>"
OPENING = (
    "stop at the token that begins the next turn, 257 <|im_start|> "
    "(the template writes no end of turn)"
)
PARTS_ONLY = (
    "{%- for m in messages %}<|im_start|>{{ m.role }}{% for p in m.content %}"
    "{{ p.text + '' }}{% endfor %}<|im_end|>{% endfor %}"
)
WRITES_NONE = "stop at the end of a turn: the template writes no token at the end of a turn"


@pytest.mark.parametrize(
    ("change", "stops", "answer"),
    [
        (say(), True, f"yes: {ALL} {CLOSING}"),
        (generation(eos_token_id=256), False, f"no: transformers does not {CLOSING}"),
        (CASES["EOS_TURN_PRIMER_IN_STOP_SET"], True, f"yes: {ALL} {OPENING}"),
        # Of two markers that always end a turn, an engine needs one.
        (CLOSED_TWICE, True, f"yes: {ALL} {CLOSING}"),
        # A marker that follows only the last turn is not the end of others: Phi-3.
        (
            both(
                ending("{%- if not add_generation_prompt %}<|endoftext|>{% endif %}"),
                *(each(eos_token_id=256) for each in (generation, config)),
                say(eos_token="<|endoftext|>"),
            ),
            False,
            f"no: {ALL} do not {CLOSING}",
        ),
        # Idefics3 and LLaVA-NeXT take only lists of parts, and vLLM gives them no other content.
        (template(PARTS_ONLY), True, f"yes: {ALL} {CLOSING}"),
        (template("{{ messages | length }}"), None, f"unknown whether {ALL} {WRITES_NONE}"),
        (say(chat_template=None), None, "there is no chat template that can be read"),
        (template(CHATML + "{% for"), None, "the template cannot be read, line 1: "),
        (template("{{ raise_exception('not today') }}"), None, "not today"),
        (
            both(
                without("tokenizer"),
                say(eos_token="</s>", added_tokens_decoder={"258": {"content": "<|im_end|>"}}),
                generation(eos_token_id=258),
                config(eos_token_id=None),
            ),
            True,
            "yes: ",
        ),
    ],
)
def test_the_answer_is_yes_no_or_unknown(
    change: Callable[[Parts], object], stops: bool | None, answer: str, tmp_path: Path
) -> None:
    report = inspect(control(change).write(tmp_path))
    assert report.stops_at_end_of_turn is stops
    assert answer in report.answer
    assert ("EOS_TERMINATOR_NOT_STOPPED" in report.codes) == (stops is False)


def test_a_marker_that_closes_a_turn_begins_none(tmp_path: Path) -> None:
    assert is_turn_marker_eos(control(CLOSED_TWICE).write(tmp_path)) == []


def test_an_unknown_id_may_be_the_end_of_the_turn(tmp_path: Path) -> None:
    def change(parts: Parts) -> None:
        parts.tokenizer, parts.generation = None, {"eos_token_id": 256}
        parts.say(auto_map={"AutoTokenizer": ["a.B", None]}, eos_token=None)
        del parts.tokenizer_config["eos_token"]  # type: ignore[union-attr] # it is there

    report = inspect(control(change).write(tmp_path), "vllm")
    assert report.stops_at_end_of_turn is None
    assert "the id of eos_token is unknown" in report.answer


def test_without_rendering_the_answer_is_unknown(tmp_path: Path) -> None:
    report = inspect(control().write(tmp_path), "sglang", render=False)
    assert report.answer == (
        "unknown whether SGLang stops at the end of a turn: the chat template was not rendered"
    )


def test_infos_are_shown_if_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = str(control(CASES["PAD_EQUALS_EOS"]).write(tmp_path))
    plain = run(monkeypatch, "preflight", folder).out.splitlines()
    verbose = run(monkeypatch, "preflight", folder, "--verbose").out.splitlines()
    line = "info PAD_EQUALS_EOS (transformers)"
    assert (line in plain, line in verbose) == (False, True)
    assert verbose[-1] == "no errors, no warnings, 1 info"


def test_a_folder_of_models_is_refused_with_their_names(tmp_path: Path) -> None:
    for name in ("qwen", "kimi"):
        write_example(name, tmp_path)
    (tmp_path / "README.md").write_text("two models")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TokenizerLoadError, match=r"with models in it: kimi, qwen$"):
        inspect(tmp_path)
    with pytest.raises(TokenizerLoadError, match=r"with models in it: kimi, qwen$"):
        effective_stop_tokens(tmp_path, "vllm")
    control().write(tmp_path / "models--a--b" / "snapshots" / "0123")
    with pytest.raises(TokenizerLoadError, match=r"with models in it: snapshots/0123$"):
        inspect(tmp_path / "models--a--b")


def test_of_many_subfolders_the_first_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("qwen", "kimi", "glm"):
        write_example(name, tmp_path)
    monkeypatch.setattr("streamdec.preflight.snapshot.MAX_ENTRIES", 2)
    with pytest.raises(TokenizerLoadError, match=r"with models in it: [a-z]+, [a-z]+$"):
        inspect(tmp_path)


@pytest.mark.parametrize(
    ("name", "answer", "codes"),
    [
        ("command-r", "yes", {"SPECIAL_FLAG_DRIFT"}),
        ("deepseek", "yes", {"ADDED_TOKENS_DECODER_ABSENT", "STRUCTURAL_TOKEN_NOT_SPECIAL"}),
        ("gemma", "yes", {"ADDED_TOKENS_DECODER_ABSENT"}),
        ("glm", "yes", {"EOS_TURN_PRIMER_IN_STOP_SET", "TOKENIZER_CLASS_REQUIRES_V5"}),
        ("kimi", "yes", {"EOS_ENGINES_DISAGREE", "TOKENIZER_REMOTE_CODE", "QUANT_NESTED"}),
        ("qwen", "yes", {"PAD_EQUALS_EOS"}),
        ("qwen-base", "no", {"EOS_TERMINATOR_NOT_STOPPED"}),
    ],
)
def test_each_example_has_the_mistake_of_its_model(
    name: str, answer: str, codes: set[str], tmp_path: Path
) -> None:
    report = inspect(write_example(name, tmp_path))
    assert report.answer.startswith(f"{answer}: ")
    assert codes <= report.codes
    assert not {f.code for f in report.at_least("error")} - codes
    if name != "kimi":
        tokenizer = load_tokenizer(tmp_path / name)
        assert tokenizer.decode(tokenizer.encode("hi").ids) == "hi"


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        (
            "EOS_TOOL_CALL_NOT_STOPPED",
            ["259 '<|pad|>', 257 '<|im_start|>'; vllm 0.33.0 stops on 258 '<|im_end|>'"],
        ),
        (
            "CHAT_TEMPLATE_REWRITES_TURNS",
            ["an answer; a system message; an answer with reasoning", "assistant<think>"],
        ),
        ("EOS_TURN_PRIMER_IN_STOP_SET", ["chat_template opens the next turn 257 '<|im_start|>'"]),
    ],
)
def test_the_text_of_a_finding_shows_the_difference(
    code: str, parts: list[str], tmp_path: Path
) -> None:
    [found] = [f for f in inspect(control(CASES[code]).write(tmp_path)).findings if f.code == code]
    assert [part for part in parts if part in str(found)] == parts


SUFFIXES = both(
    decoder(type="WordPiece", prefix="##", cleanup=False), pieces(*(f"##{i}" for i in range(20)))
)


@pytest.mark.filterwarnings("ignore:.*a decoder that cannot read the vocabulary")
@pytest.mark.parametrize(
    ("change", "text", "of_the_file"),
    [(METASPACE, "Ġ1Ġ2", "Ġ1Ġ2"), (both(SUFFIXES, config(model_type="qwen2")), "##1##2", "##12")],
)
def test_a_decoder_that_leaves_signs_is_what_the_library_does(
    change: Callable[[Parts], object], text: str, of_the_file: str, tmp_path: Path
) -> None:
    folder = control(change).write(tmp_path)
    report = inspect(folder, render=False)
    [found] = [f for f in report.findings if f.code == "DECODER_CANNOT_READ_VOCAB"]
    assert load_tokenizer(folder).decode([237, 238]) == text
    assert load_tokenizer(folder / "tokenizer.json").decode([237, 238]) == of_the_file
    assert ("tokenizers.Tokenizer.from_file" in found.engines) == (text == of_the_file)
