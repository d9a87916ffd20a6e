"""On what each engine stops, by the files; and the markers that close and open a turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import StreamdecWarning
from streamdec.folders.sentencepiece_proto import ModelProto
from streamdec.preflight import Source, effective_stop_tokens, inspect, stop_conditions
from streamdec.preflight.engine_versions import parse_engine
from streamdec.preflight.turns import ANSWER, FIRST, QUESTION, Probes, Turns, find_turns, probe
from tests.preflight.changes import both, drop, own, say, without
from tests.preflight.making import CHATML, control
from tests.support.files import sentencepiece, write_files

STOPS = json.loads((Path(__file__).parent / "data" / "stops.json").read_text("utf-8"))
"""Written by ``scripts/make_preflight_goldens.py``."""
ROWS = json.loads((Path(__file__).parent / "data" / "stop_rows.json").read_text("utf-8"))


def written(folder: Path, tokenizer: str | None, generation: Any, config: dict[str, Any]) -> Path:
    """Write a snapshot. ``generation`` is an ``eos_token_id``, a file's text, or "absent"."""
    parts = control(say(eos_token=tokenizer))
    parts.config, parts.generation = config, None
    if not isinstance(generation, str):
        parts.generation = {"eos_token_id": generation}
    elif generation != "absent":
        parts.others["generation_config.json"] = generation
    return parts.write(folder)


@pytest.mark.parametrize("name", ROWS)
def test_the_rules_decide_the_stop_tokens(name: str, tmp_path: Path) -> None:
    row = dict(ROWS[name])
    stops = row.pop("stops")
    folder = written(tmp_path, **row)
    assert {engine: sorted(effective_stop_tokens(folder, engine).ids) for engine in stops} == stops


@pytest.mark.parametrize("index", range(len(STOPS["entries"])))
def test_the_fall_back_is_that_of_the_library(index: int, tmp_path: Path) -> None:
    """Without a tokenizer vLLM stops on the ids of the configuration that transformers loads."""
    entry = STOPS["entries"][index]
    folder, engines = write_files(tmp_path, entry["files"]), entry["stops"]
    found = {name: sorted(effective_stop_tokens(folder, name).ids) for name in engines}
    assert found == engines


def test_each_id_has_its_sources(tmp_path: Path) -> None:
    folder = written(tmp_path, "<|endoftext|>", [256, 258], {"model_type": "llama"})
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
        ("sglang@0.5.10", {257, 258}),
        ("sglang@0.5.11", {257, 258}),
        ("vllm", {258}),
    ],
)
def test_sglang_stops_on_texts_of_its_own_that_are_added_tokens(
    engine: str, ids: set[int], tmp_path: Path
) -> None:
    change = both(
        lambda parts: parts.own[1].update(content="<|eom_id|>"),
        own(260, "<|content_model_end_sampling|>"),
        own(261, "<|ifm|im_end|>", special=False),
        say(added_tokens_decoder={}),
    )
    folder = control(change).write(tmp_path)
    assert effective_stop_tokens(folder, engine).ids == ids


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


@pytest.mark.parametrize(
    ("name", "eos", "texts"),
    [
        ("GPT2Tokenizer", "<|im_end|>", {258: "<|im_end|>"}),
        # GPT-2's class adds its <|endoftext|> first.
        ("GPT2Tokenizer", "<new>", {2: "<new>", 258: "<|im_end|>"}),
        ("M2M100Tokenizer", "<|im_end|>", {258: "<|im_end|>"}),
        ("PreTrainedTokenizerFast", "<|im_end|>", {258: None}),
        ("GemmaTokenizer", "<|im_end|>", {258: None}),
        ("BertTokenizer", "<|im_end|>", {258: "<|im_end|>"}),
        ("BertTokenizer", "<new>", {258: "<|im_end|>", 259: "<new>"}),
        ("SplinterTokenizer", "<|im_end|>", {258: None}),  # which adds [QUESTION]
    ],
)
def test_a_vocabulary_has_the_ids_if_a_class_reads_it(
    name: str, eos: str, texts: dict[int, str | None], tmp_path: Path
) -> None:
    parts = control(without("tokenizer"))
    parts.tokenizer_config = {"tokenizer_class": name, "eos_token": eos}
    parts.others["vocab.json"] = {"<|im_end|>": 258, "<|pad|>": "259"}
    parts.others["vocab.txt"] = "\n".join(["0\r0", *map(str, range(1, 258)), "<|im_end|> "])
    stop = effective_stop_tokens(parts.write(tmp_path), "vllm")
    assert (stop.texts, stop.resolved) == (texts, None not in texts.values())


@pytest.mark.parametrize("eos", ["</s>", "<|im_end|>"])
@pytest.mark.parametrize("name", [None, "LlamaTokenizer", "T5Tokenizer"])
def test_a_sentencepiece_model_has_the_ids(name: str | None, eos: str, tmp_path: Path) -> None:
    """Except with T5's class, which adds tokens of its own."""
    pytest.importorskip("sentencepiece")
    parts = control(without("tokenizer", "generation"))
    model = sentencepiece(pad_id=0, eos_id=1, unk_id=2, bos_id=3)
    parts.others["tokenizer.model"] = model
    parts.tokenizer_config = {"tokenizer_class": name, "eos_token": eos}
    if name is None and eos == "</s>":  # the model says it
        parts.tokenizer_config = None
    stop = effective_stop_tokens(parts.write(tmp_path), "vllm")
    own = 1 if eos == "</s>" else len(ModelProto.parse(model).pieces)
    assert stop.texts == (
        {258: None} if name == "T5Tokenizer" else {258: stop.texts[258], own: eos}
    )
    assert stop.resolved == (name != "T5Tokenizer")


def test_stop_conditions_that_may_lack_a_stop_warn(tmp_path: Path) -> None:
    folder = control(both(without("tokenizer"), drop("added_tokens_decoder"))).write(tmp_path)
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


MARKERS = {"<|im": 5, "<|im_start|>": 1, "<|im_end|>": 2, "</s>": 3, "<|user|>": 4, "": 6}
OLD_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if not (loop.last and m.role == 'assistant') %}<|im_end|>\n{% endif %}{% endfor %}"
)
MISTRAL = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
GLM = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
NO_MARKERS = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
AND = f"{ANSWER} and "
FLOOD = f"{ANSWER}</s>{'z' * 4_000_000}"


@pytest.mark.parametrize(
    ("source", "terminator", "primer"),
    [
        (CHATML, "<|im_end|>", "<|im_start|>"),
        (OLD_CHATML, "<|im_end|>", "<|im_start|>"),
        (MISTRAL, "</s>", None),
        (GLM, None, "<|user|>"),
        (NO_MARKERS, None, None),
        ("{{ raise_exception('no') }}", None, None),
        # Texts: the longest of two markers that begin alike, a marker after other text, and as
        # much text between the markers as a template may write.
        ({"answered": f"{FIRST}<|im_start|>{ANSWER}<|im_end|>"}, "<|im_end|>", None),
        (
            {"answered": f"{AND}<|im_end|>", "followed": f"{AND}<|user|> {QUESTION}"},
            None,
            "<|user|>",
        ),
        ({"answered": FLOOD, "followed": f"{FLOOD}<|user|>{QUESTION}"}, "</s>", "<|user|>"),
    ],
)
def test_the_markers_of_turns_are_found(
    source: str | dict[str, str], terminator: str | None, primer: str | None
) -> None:
    probes = probe(source, {}) if isinstance(source, str) else Probes(rendered=source)
    turns = find_turns(probes, MARKERS | {f"<{i}>": 10 + i for i in range(20_000)})
    assert (turns.terminator and turns.terminator.text) == terminator
    assert (turns.primer and turns.primer.text) == primer
    assert turns.terminator is None or turns.terminator.id == MARKERS[turns.terminator.text]
    assert find_turns(probes, {}) == Turns()
