"""Write ``tests/folders/data/classes.jsonl``: folders as classes of transformers load them.

    PYTHONPATH=. python scripts/make_class_goldens.py [--draws N] [--seed N] [FILE]

Needs transformers (not torch), which the tests do not. The first line has the version, one
``tokenizer.json`` for each kind of model, and a SentencePiece model. Each other line is a folder:
which of those files, in which form, a ``tokenizer_config.json`` that was drawn at random, and what
``AutoTokenizer`` makes from it. Of the folders in
``../shared``, which may not be copied, there are only hashes of that.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers
from make_transformers_facts import ROLES
from make_transformers_pipelines import FLAGS, OPTIONS
from make_transformers_pipelines import TARGET as PIPELINES
from sentencepiece import SentencePieceTrainer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tests.support.made_folders import changed

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "folders" / "data" / "classes.jsonl"
SPECIAL = ("<unk>", "<s>", "</s>", "<pad>", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "<|endoftext|>")
WORDS = ("hello", "world", "it", "x", "M</w>", "N</w>", "m</w>", "Ġworld", "▁hello", "▁world", "▁")
TEXTS = (
    *("hello world", " Hello  World", "M N m", "naïve 12345", "你好 world"),
    *("x</s>  hello<new>\nit's", "<|endoftext|>a [MASK] b"),
    "def f(x):\n    return x**2  # こんにちは, 안녕! 😀👍🏽 don't naïve",
)
PADDING = {
    "strategy": {"Fixed": 4},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 3,
    "pad_type_id": 0,
    "pad_token": "<pad>",
}
NO_CHARSMAP = base64.b64encode(struct.pack("<I", 1024) + bytes(1025)).decode()
"""A trie whose root has no children, and no replacements."""
OF_SENTENCEPIECE = ("TokenizersBackend",)
SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


def pieces(*others: str) -> list[str]:
    """Return the texts of a small vocabulary."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = [letter for word in (*WORDS, *others) for letter in word if len(word) > 1]
    return list(dict.fromkeys([*SPECIAL, *alphabet, *letters, *WORDS, *others]))


def tokenizer_jsons() -> dict[str, Any]:
    """Return a tokenizer.json for each kind of model, whose parts no class builds."""
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("▁", "hello")]
    merged = [a + b for a, b in merges]
    bpe = models.BPE({t: i for i, t in enumerate(pieces(*merged))}, merges, ignore_merges=True)
    words = pieces("##o", "##x", "hell", "##ll", "你", "好")
    word_piece = models.WordPiece({t: i for i, t in enumerate(words)}, unk_token="[UNK]")
    unigram = models.Unigram([(t, -float(len(t) < 2) - 1) for t in pieces("llo")], 0)
    found = {}
    for name, model in (("BPE", bpe), ("WordPiece", word_piece), ("Unigram", unigram)):
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.Replace("N", "n")
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.decoder = decoders.Replace("x", "y")
        tokenizer.add_special_tokens(["</s>", "<s>"])
        tokenizer.add_tokens(["<own>"])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s>:0 $A:0", pair="<s>:0 $A:0 $B:1", special_tokens=[("<s>", 1)]
        )
        found[name] = json.loads(tokenizer.to_str())
    return found


class Draw:
    """One folder after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def config(self, name: str, ids: dict[str, int]) -> dict[str, Any]:
        """Return a tokenizer_config.json for the class ``name``."""
        said: dict[str, Any] = {"tokenizer_class": name}
        for option in OPTIONS:
            if self.random.random() < 0.3:
                said[option] = self.random.random() < 0.5
        for option in ("add_bos_token", "add_eos_token"):
            if self.random.random() < 0.3:
                said[option] = self.random.random() < 0.5
        for role in ROLES:
            if self.random.random() < 0.05:
                said[role] = None
            elif self.random.random() < 0.3:
                text = self.random.choice((*SPECIAL, "<new>"))
                flags = {
                    flag: self.random.random() < 0.3 for flag in FLAGS if self.random.random() < 0.7
                }
                is_typed = self.random.random() < 0.2
                typed = {"__type": "AddedToken", "content": text, **flags}
                said[role] = typed if is_typed else text
        if self.random.random() < 0.5:
            texts = self.random.sample(SPECIAL, 3)
            said["added_tokens_decoder"] = {
                str(ids[text]): {"content": text, **{f: self.random.random() < 0.4 for f in FLAGS}}
                for text in texts
            }
        if self.random.random() < 0.2:
            said["additional_special_tokens"] = ["<more>", "</s>"]
        return said

    def changes(self, kind: str) -> dict[str, Any]:
        """Return what else a tokenizer.json of this kind has, as ``changed`` takes it."""
        found: dict[str, Any] = {}
        if self.random.random() < 0.2:
            found["post_processor"] = None
        if self.random.random() < 0.2:
            found["padding"] = PADDING
        if kind == "Unigram" and self.random.random() < 0.8:
            found["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": NO_CHARSMAP}
            found["unk_id"] = self.random.randrange(7)
            found["unk_score"] = self.random.choice((0.0, -1.0))
        return found


def sentencepiece_model() -> str:
    """Return a small SentencePiece model in base64."""
    text = " ".join(("hello world it's M N naive 12345 def return", *TEXTS)).split()
    sentences = iter([" ".join(text[i : i + 6]) for i in range(0, len(text), 3)])
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=sentences,
        model_writer=written,
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=0.98,
        control_symbols=["[CLS]"],
        user_defined_symbols=["x x"],
        hard_vocab_limit=False,
        minloglevel=2,
        normalization_rule_name="identity",
    )
    return base64.b64encode(written.getvalue()).decode()


def write(folder: Path, form: str, file: Any, config: dict[str, Any]) -> None:
    """Write the files of a folder; the tests do the same."""
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    if form == "tokenizer.model":
        (folder / form).write_bytes(base64.b64decode(file))
    else:
        (folder / form).write_text(json.dumps(file), "utf-8")


def loaded(folder: Path) -> dict[str, Any]:
    """Return what transformers makes from ``folder``."""
    made = transformers.AutoTokenizer.from_pretrained(folder)
    ids = [made.encode(text, add_special_tokens=False) for text in TEXTS]
    draw = random.Random(1)
    ids += [[draw.randrange(len(made)) for _ in range(12)] for _ in range(4)]
    added = made.added_tokens_decoder.items()
    options = {"clean_up_tokenization_spaces": False}
    return {
        "class": type(made).__name__,
        "size": len(made),
        "added": {str(i): [t.content, *(getattr(t, flag) for flag in FLAGS)] for i, t in added},
        "roles": {r: [t, made.convert_tokens_to_ids(t)] for r in ROLES if (t := getattr(made, r))},
        "ids": ids,
        "with_special": made.encode(TEXTS[0], add_special_tokens=True),
        "text": [made.decode(i, skip_special_tokens=False, **options) for i in ids],
        "skipped": [made.decode(i, skip_special_tokens=True, **options) for i in ids],
    }


def rows(draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of the file."""
    files, draw = tokenizer_jsons(), Draw(seed)
    files["sentencepiece"] = sentencepiece_model()
    yield {"transformers": transformers.__version__, "texts": TEXTS, "files": files}
    ids = {text: i for i, text in enumerate(SPECIAL)}
    classes = [n for n in json.loads(PIPELINES.read_text("utf-8")) if n != "transformers"]
    for name in (*classes, "TokenizersBackend"):
        cls: Any = getattr(transformers, name, None)
        kind = getattr(getattr(cls, "model", None), "__name__", "BPE")
        forms = ["tokenizer.json"] * draws
        if name in OF_SENTENCEPIECE:
            forms += ["tokenizer.model"] * draws
        for form in forms:
            file = "sentencepiece" if form == "tokenizer.model" else kind
            config = draw.config(name, ids)
            if form == "tokenizer.model" and draw.random.random() < 0.5:
                config.pop("added_tokens_decoder", None)
            row = {"kind": file, "form": form, "config": config}
            content = files[file]
            if form == "tokenizer.json" and (changes := draw.changes(kind)):
                row["changes"], content = changes, changed(content, changes)
            with TemporaryDirectory() as place:
                write(Path(place), form, content, config)
                try:
                    yield {**row, **loaded(Path(place))}
                except BaseException as error:  # noqa: BLE001 (not a tokenizer, or a panic)
                    print(f"{name}: {type(error).__name__}: {str(error)[:100]}")


def hashes() -> Iterator[dict[str, Any]]:
    """Yield a line for each folder of ``../shared`` that transformers can load."""
    for folder in sorted((*SHARED.glob("tokenizers/*/"), *SHARED.glob("snapshots/*/"))):
        if not any(map(is_vocabulary, folder.iterdir())):
            continue
        try:
            found = loaded(folder)
        except Exception as error:  # noqa: BLE001 (not a tokenizer)
            print(f"{folder.name}: {type(error).__name__}: {str(error)[:60]}")
            continue
        name, size = found.pop("class"), found.pop("size")
        digests = {key: digest(value) for key, value in found.items()}
        place = str(folder.relative_to(SHARED))
        yield {"folder": place, "class": name, "size": size, **digests}


def is_vocabulary(path: Path) -> bool:
    """Return whether ``path`` can hold a vocabulary."""
    return path.name == "tokenizer.json" or path.suffix == ".model"


def digest(value: Any) -> str:
    """Return 12 hexadecimal digits for JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file", nargs="?", type=Path, default=GOLDENS)
    asked = parser.parse_args()
    compact: Any = {"separators": (",", ":"), "ensure_ascii": False}
    found = (*rows(asked.draws, asked.seed), *hashes())
    lines = [json.dumps(row, **compact) for row in found]
    asked.file.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
