from __future__ import annotations

import lzma
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.errors import TokenizerLoadError
from streamdec.loading import content
from streamdec.loading.content import blocks_of, content_of, is_packed


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.integers(1, 9))
def test_what_is_packed_is_unpacked(tmp_path: Path, parts: list[bytes], block: int) -> None:
    packed = b"".join(lzma.compress(part) + bytes(4 * len(part)) for part in parts)
    (tmp_path / "file").write_bytes(packed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "_BLOCK", block)
        assert content_of(tmp_path / "file") == b"".join(parts)
        assert all(len(found) <= block for found in blocks_of(tmp_path / "file"))
    assert is_packed(tmp_path / "file")


def test_a_large_file_comes_in_blocks(tmp_path: Path) -> None:
    data = random.Random(5).randbytes(300_000) + bytes(3_000_000)
    (tmp_path / "packed").write_bytes(lzma.compress(data))
    (tmp_path / "plain").write_bytes(data)
    for name in ("packed", "plain"):
        assert content_of(tmp_path / name) == data
        assert max(map(len, blocks_of(tmp_path / name))) <= 2**18
    assert not is_packed(tmp_path / "plain")


@pytest.mark.parametrize("cut", [7, 20, 50, -1])
def test_a_damaged_file_is_named(cut: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(lzma.compress(b"some text" * 9)[:cut])
    with pytest.raises(TokenizerLoadError, match=r"file': it ends in the middle"):
        content_of(tmp_path / "file")
    packed = bytearray(lzma.compress(b"some text" * 9))
    packed[30] ^= 1
    (tmp_path / "file").write_bytes(bytes(packed))
    with pytest.raises(TokenizerLoadError, match=r"file': damaged"):
        content_of(tmp_path / "file")


def test_what_becomes_too_large_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "MAX_CONTENT", 1_000_000)
    (tmp_path / "file").write_bytes(lzma.compress(bytes(50_000_000)))
    with pytest.raises(TokenizerLoadError, match="more than 1000000 bytes"):
        content_of(tmp_path / "file")


def test_what_takes_too_much_memory_is_not_unpacked(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**28}]
    packed = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=filters)
    (tmp_path / "file").write_bytes(packed.compress(b"text") + packed.flush())
    with pytest.raises(TokenizerLoadError, match=r"[Mm]emory"):
        content_of(tmp_path / "file")


def test_what_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(TokenizerLoadError):
            content_of(path)
