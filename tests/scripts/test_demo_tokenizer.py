"""The demo's tokenizer: what the script gives is what the package has, and it cuts characters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.support.pages import DEMO, ROOT

DATA = ROOT / "streamdec" / "cli" / "data"
TOKENIZER = DEMO / "tokenizer.json"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TOKENIZER))


@pytest.fixture(scope="module")
def demo_text() -> str:
    return (DATA / "demo_text.txt").read_text(encoding="utf-8")


def test_training_again_gives_the_committed_file_byte_for_byte(tmp_path: Path) -> None:
    scripts, data = tmp_path / "scripts", tmp_path / "streamdec" / "cli" / "data"
    scripts.mkdir()
    data.mkdir(parents=True)
    (tmp_path / TOKENIZER.relative_to(ROOT)).parent.mkdir(parents=True)
    for name in ("train_demo_tokenizer.py", "demo_corpus.txt"):
        (scripts / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (data / "demo_text.txt").write_bytes((DATA / "demo_text.txt").read_bytes())

    subprocess.run([sys.executable, scripts / "train_demo_tokenizer.py"], check=True)

    trained = (tmp_path / TOKENIZER.relative_to(ROOT)).read_bytes()
    assert trained == TOKENIZER.read_bytes()
    assert len(trained) <= 300_000


def test_a_quarter_of_the_demo_s_characters_is_cut_by_tokens(
    tokenizer: Tokenizer, demo_text: str
) -> None:
    """Offsets of a byte-level tokenizer are in characters: one that two tokens name is cut."""
    owners: dict[int, int] = {}
    for start, end in tokenizer.encode(demo_text).offsets:
        for place in range(start, end):
            owners[place] = owners.get(place, 0) + 1
    foreign = [place for place, character in enumerate(demo_text) if not character.isascii()]
    assert sum(owners[place] > 1 for place in foreign) >= len(foreign) / 4
