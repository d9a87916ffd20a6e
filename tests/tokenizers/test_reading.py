from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.tekken import TekkenTokenizer
from streamdec.backends.tiktoken import TiktokenTokenizer
from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers.folder_files import MAX_FILE, read_bounded


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "ranks").write_bytes(b"12345")
    assert read_bounded(tmp_path / "ranks", 5) == b"12345"
    with pytest.raises(TokenizerLoadError, match=r"ranks'.*5 bytes, more than 4"):
        read_bounded(tmp_path / "ranks", 4)


@pytest.mark.parametrize("name", ["none", ".", "a\0b", "a" * 5_000])
def test_an_unreadable_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=repr(str(tmp_path))[:-1]):
        read_bounded(tmp_path / name)


@pytest.mark.thorough
@pytest.mark.parametrize("made", [HuggingFaceTokenizer, TekkenTokenizer, TiktokenTokenizer])
def test_no_backend_reads_an_endless_file(made: Callable[[Path], object], tmp_path: Path) -> None:
    """It has no bytes on the disk, and would take all memory."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b'{"model": {}}')
    os.truncate(path, MAX_FILE + 1)
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json': .*more than 268435456"):
        made(path)
