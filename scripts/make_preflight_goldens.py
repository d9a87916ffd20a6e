"""Writes ``loads.json`` and ``stops.json``: what transformers loads from small snapshots.

Run it with the transformers installed whose rules ``streamdec.preflight`` follows (5.24.0; no torch
needed). Each entry of the first has the files of a snapshot as they were drawn, ``tokenizer.json``
without its vocabulary, and what ``AutoTokenizer`` had after loading them. Each of the second has
``config.json`` and ``generation_config.json``, and the ids in the generation configuration that
``generate()`` takes and in the one that vLLM takes, which is made of the loaded configuration.
"""

from __future__ import annotations

import importlib
import json
import logging
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "preflight" / "data"
COUNT = 60
CLASSES = (
    *("PreTrainedTokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "LlamaTokenizerFast"),
    *("GPT2Tokenizer", "TokenizersBackend", "PreTrainedTokenizer", "GemmaTokenizerFast"),
    *("CohereTokenizerFast", "Acme", None),
)
MODELS = (
    *("qwen2", "llama", "gpt2", "qwen3", "gemma3_text", "deepseek_v3", "mistral", "cohere"),
    *("phi3", "acme"),
)
OWN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
TEXTS = (*OWN, "</s>", "<new>", "<t>", "a")


def added(content: str, *, special: bool = True) -> dict[str, Any]:
    """An added token as files have it."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": content, **flags, "special": special}


def draw(rng: random.Random) -> dict[str, Any]:
    """The files of one snapshot."""
    own = [{"id": 256 + i, **added(t, special=rng.random() < 0.8)} for i, t in enumerate(OWN)]
    if rng.random() < 0.3:
        own.append({"id": 260, **added("<t>", special=rng.random() < 0.5)})
    if rng.random() < 0.1:
        own.append({"id": 270, **added("<gap>")})
    config: dict[str, Any] = {}
    declared = rng.choice(CLASSES)
    if declared is not None:
        config["tokenizer_class"] = declared
    if rng.random() < 0.6:
        config["added_tokens_decoder"] = draw_decoder(rng, own)
    for role in ("eos_token", "pad_token", "bos_token", "unk_token"):
        chance = rng.random()
        if chance < 0.6:
            config[role] = rng.choice(TEXTS)
        elif chance < 0.7:
            config[role] = None
        elif chance < 0.75:
            config[role] = {**added(rng.choice(TEXTS)), "__type": "AddedToken"}
    extras: list[Any] = [["<new>"], ["<t>", "<|im_start|>"], {"image_token": "<img>"}, {}, []]
    if rng.random() < 0.3:
        config["extra_special_tokens"] = rng.choice(extras)
    if rng.random() < 0.3:
        config["additional_special_tokens"] = rng.choice([["<new>"], ["<t>", "<x>"], []])
    if rng.random() < 0.15:
        config["image_token"] = "<img2>"
    files: dict[str, Any] = {
        "tokenizer_config.json": config,
        "config.json": {"model_type": rng.choice(MODELS)},
        "added_tokens": own,
    }
    if rng.random() < 0.3:
        special = {"eos_token": rng.choice(TEXTS), "pad_token": added(rng.choice(TEXTS))}
        files["special_tokens_map.json"] = special
    if rng.random() < 0.2:
        files["added_tokens.json"] = {"<leg>": 261, "<|im_end|>": 258}
    return files


def draw_decoder(rng: random.Random, own: list[dict[str, Any]]) -> dict[str, Any]:
    """An ``added_tokens_decoder`` that is more or less like the tokens of ``tokenizer.json``."""
    found = {
        str(token["id"]): added(token["content"], special=rng.random() < 0.8)
        for token in own
        if rng.random() < 0.9
    }
    if rng.random() < 0.2:
        found["265"] = added("<new>", special=rng.random() < 0.5)
    if rng.random() < 0.2:
        found["259"] = added("<|padding|>")
    return found


def write(files: dict[str, Any], folder: Path) -> None:
    """Writes a snapshot; the test writes it in the same way."""
    making = importlib.import_module("tests.preflight.making")
    parts = making.control()
    parts.tokenizer["added_tokens"] = files["added_tokens"]
    parts.tokenizer_config, parts.config = files["tokenizer_config.json"], files["config.json"]
    parts.generation = None
    parts.others = {
        n: files[n] for n in ("special_tokens_map.json", "added_tokens.json") if n in files
    }
    parts.write(folder)


def load(folder: Path) -> dict[str, Any]:
    """What the library has after loading."""
    tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
    return {
        "class": type(tokenizer).__name__,
        "eos_token_id": tokenizer.eos_token_id,
        "roles": {k: str(v) for k, v in sorted(tokenizer.special_tokens_map.items())},
        "added": {i: [t.content, t.special] for i, t in tokenizer.added_tokens_decoder.items()},
    }


TYPES = (
    *("llama", "qwen2", "qwen3", "gemma3", "gemma3_text", "llava", "aya_vision", "mistral3"),
    *("qwen2_5_vl", "qwen2_5_omni", "mllama", "llama4", "t5", "bart", "phi3", "gpt_oss"),
    *("deepseek_v3", "idefics3", "paligemma", "whisper", "gpt2", "cohere2", "opt"),
)
IDS: tuple[Any, ...] = (258, [258], [257, 258], 0, [0], None, [], 1)


def draw_stops(rng: random.Random) -> dict[str, Any]:
    """The two files that declare ends of sequences."""
    config: dict[str, Any] = {"model_type": rng.choice(TYPES)}
    if rng.random() < 0.4:
        config["eos_token_id"] = rng.choice(IDS)
    if rng.random() < 0.5:
        part = config["text_config"] = {}
        if rng.random() < 0.6:
            part["eos_token_id"] = rng.choice(IDS)
    files: dict[str, Any] = {"config.json": config}
    if rng.random() < 0.4:
        files["generation_config.json"] = {"eos_token_id": rng.choice(IDS)}
    return files


def stops_of(folder: Path) -> dict[str, list[int]]:
    """The ids that the library gives to ``generate()``, and those that it gives to vLLM."""
    transformers = importlib.import_module("transformers")
    generation = transformers.GenerationConfig
    config = transformers.AutoConfig.from_pretrained(folder)
    try:
        found = written = generation.from_pretrained(folder)
    except OSError:
        found = generation.from_model_config(config)
        written = generation.from_pretrained(
            folder, config_file_name="config.json", _from_model_config=True
        )
    return {"vllm": _listed(found.eos_token_id), "transformers": _listed(written.eos_token_id)}


def _listed(value: Any) -> list[int]:
    listed = [] if value is None else value if isinstance(value, list) else [value]
    return sorted(set(listed))


def write_stops(rng: random.Random, version: str) -> None:
    """Draws, loads and writes ``stops.json``."""
    entries: list[dict[str, Any]] = []
    while len(entries) < COUNT:
        files = draw_stops(rng)
        with tempfile.TemporaryDirectory() as name:
            for file, content in files.items():
                (Path(name) / file).write_text(json.dumps(content), "utf-8")
            try:
                entries.append({"files": files, "stops": stops_of(Path(name))})
            except (TypeError, ValueError, AttributeError):
                continue  # a configuration that the library rejects
    _write("stops.json", version, entries)


def _write(name: str, version: str, entries: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    DATA.mkdir(parents=True, exist_ok=True)
    text = f'{{"transformers": "{version}", "entries": [\n{lines}\n]}}\n'
    (DATA / name).write_text(text, "utf-8")


def main() -> None:
    """Draws, loads and writes."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rng = random.Random(20)
    entries: list[dict[str, Any]] = []
    while len(entries) < COUNT:
        files = draw(rng)
        with tempfile.TemporaryDirectory() as name:
            write(files, Path(name))
            entries.append({"files": files, "loaded": load(Path(name))})
    version = importlib.import_module("transformers").__version__
    _write("loads.json", version, entries)
    write_stops(rng, version)


if __name__ == "__main__":
    main()
