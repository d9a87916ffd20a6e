"""The demo's tokenizer: what the script gives is what the package has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.pages import DEMO, ROOT

DATA = ROOT / "streamdec" / "cli" / "data"
TOKENIZER = DEMO / "tokenizer.json"


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
