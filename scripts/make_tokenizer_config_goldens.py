"""Makes ``tests/folders/data/tokenizer_configs.jsonl``: tokenizers as transformers loads them.

    python scripts/make_tokenizer_config_goldens.py [--cases N] [--seed N] [FILE]

Needs transformers (not torch), which the tests do not. Each line is a folder, drawn at random from
everything that may be said of added tokens, and the tokenizer that transformers loads from it; and
the folders of ``../shared/snapshots`` where they lie beside the repository, by name. The first line
has the version of transformers and the tokenizer.json that the folders are made of.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "folders" / "data" / "tokenizer_configs.jsonl"
SHARED = ROOT.parent / "shared" / "snapshots"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
SPECIAL = ("<end>", "<user>", "<model>", "<pad>")
OTHERS = ("<new>", "<x>", "a", "<tool>", "</s>", "the", "<|y|>")
TEXT = "<end><user> <model> <pad>a<new>the </s> <tool><x>a<|y|>"
SHOWN = ("content", *FLAGS)


def base() -> dict[str, Any]:
    """The tokenizer.json: every byte, and four special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    made: dict[str, Any] = json.loads(tokenizer.to_str())
    return made


class Draw:
    """One folder after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def _happens(self, share: float) -> bool:
        return self.random.random() < share

    def _text(self) -> str:
        return self.random.choice(SPECIAL + OTHERS)

    def _flags(self, *left_out: str) -> dict[str, bool]:
        shares = {"special": 0.5}
        return {f: self._happens(shares.get(f, 0.3)) for f in FLAGS if f not in left_out}

    def _token(self) -> str | dict[str, Any]:
        if self._happens(0.6):
            return self._text()
        return {"__type": "AddedToken", "content": self._text(), **self._flags()}

    def _tokens(self, most: int) -> list[str | dict[str, Any]]:
        return [self._token() for _ in range(self.random.randint(0, most))]

    def own(self, tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The added tokens of the tokenizer.json: some are not special."""
        return [
            token | ({"special": self._happens(0.5)} if self._happens(0.3) else {})
            for token in tokens
        ]

    def _declared(self, own: list[dict[str, Any]]) -> dict[str, Any]:
        by_id = {token["id"]: token for token in own}
        ids = [*by_id, max(by_id) + 1, max(by_id) + 5, 5]
        found = {}
        for token_id in self.random.sample(ids, self.random.randint(0, len(ids))):
            token = by_id.get(token_id)
            text = token["content"] if token and self._happens(0.7) else self._text()
            same = token is not None and self._happens(0.5)
            flags = {f: token[f] for f in FLAGS} if token and same else self._flags()
            found[str(token_id)] = {"content": text, **flags}
        return found

    def _config(self, own: list[dict[str, Any]]) -> dict[str, Any]:
        said: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        if self._happens(0.6):
            said["added_tokens_decoder"] = self._declared(own)
        for role in ("bos_token", "eos_token", "unk_token", "pad_token", "mask_token"):
            if self._happens(0.3):
                said[role] = self._token()
        if self._happens(0.2):
            said["image_token"] = self._text()
        if self._happens(0.3):
            said["additional_special_tokens"] = self._tokens(3)
        if self._happens(0.25):
            named = self._happens(0.4)
            said["extra_special_tokens"] = {"boi_token": self._text()} if named else self._tokens(2)
        return said

    def _special_tokens_map(self) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for role in ("bos_token", "eos_token", "cls_token"):
            if self._happens(0.5):
                typed = {"content": self._text(), **self._flags("special")}
                said[role] = self._text() if self._happens(0.5) else typed
        if self._happens(0.4):
            said["additional_special_tokens"] = [self._text(), self._text()]
        return said

    def files(self, own: list[dict[str, Any]]) -> dict[str, Any]:
        """The files beside a tokenizer.json that has these added tokens."""
        files: dict[str, Any] = {}
        if self._happens(0.9):
            files["tokenizer_config.json"] = self._config(own)
        if self._happens(0.5):
            files["special_tokens_map.json"] = self._special_tokens_map()
        if self._happens(0.3):
            first = own[-1]["id"] + 1
            count = self.random.randint(1, 3)
            files["added_tokens.json"] = {self._text(): first + n for n in range(count)}
        return files


def loaded(folder: Path) -> dict[str, Any]:
    """What transformers loads, asked through the library's tokenizer inside."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    added = tokenizer.get_added_tokens_decoder()
    return {
        "added": {i: [getattr(token, name) for name in SHOWN] for i, token in added.items()},
        "skipped": [i for i in added if not tokenizer.decode([i], skip_special_tokens=True)],
        "ids": tokenizer.encode(TEXT, add_special_tokens=False).ids,
    }


def rows(cases: int, seed: int) -> Iterator[dict[str, Any]]:
    """The lines of the file."""
    tokenizer, draw = base(), Draw(seed)
    yield {"transformers": transformers.__version__, "text": TEXT, "tokenizer": tokenizer}
    with TemporaryDirectory() as place:
        for number in range(cases):
            folder = Path(place) / str(number)
            folder.mkdir()
            own = draw.own(tokenizer["added_tokens"])
            files = draw.files(own)
            for name, said in {
                "tokenizer.json": tokenizer | {"added_tokens": own},
                **files,
            }.items():
                (folder / name).write_text(json.dumps(said), "utf-8")
            yield {"own": own, "files": files, **loaded(folder)}
    for folder in sorted(SHARED.glob("*/")):
        if (folder / "tokenizer.json").is_file():
            try:
                yield {"shared": folder.name, **loaded(folder)}
            except Exception as error:  # noqa: BLE001 (not a tokenizer)
                print(f"{folder.name}: {error}")


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cases", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file", nargs="?", type=Path, default=GOLDENS)
    asked = parser.parse_args()
    asked.file.parent.mkdir(exist_ok=True)
    lines = [json.dumps(row, separators=(",", ":")) for row in rows(asked.cases, asked.seed)]
    asked.file.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
