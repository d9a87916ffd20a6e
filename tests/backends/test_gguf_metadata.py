from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends import gguf_metadata
from streamdec.backends.gguf_metadata import read_metadata
from streamdec.errors import TokenizerLoadError
from tests.support.files import gguf

SCALARS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(width=32, allow_nan=False),
)
LISTS = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=5),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5),
    st.lists(st.booleans(), max_size=5),
    st.lists(st.floats(width=32, allow_nan=False), max_size=5),
)


def read(content: bytes, path: Path, wanted: str = "") -> dict[str, Any]:
    (path / "file.gguf").write_bytes(content)
    return read_metadata(path / "file.gguf", lambda key: key.startswith(wanted))


@given(
    st.dictionaries(st.text("ab.", max_size=4), st.one_of(SCALARS, LISTS), max_size=6),
    st.sampled_from("<>"),
    st.sampled_from([2, 3]),
)
def test_written_values_are_read_unchanged(
    tmp_path: Path, values: dict[str, Any], order: str, version: int
) -> None:
    content = gguf(values.items(), order, version) + b"tensors"
    assert read(content, tmp_path) == values
    assert read(content, tmp_path, "a") == {k: v for k, v in values.items() if k[:1] == "a"}


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def head(version: int = 3, keys: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, keys)


KEY = number(1) + b"k"
LIST = KEY + struct.pack("<I", 9)
DEEP = b"".join(struct.pack("<IQ", 9, 1) for _ in range(100_000))


@pytest.mark.parametrize("wanted", ["", "other"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "only 0 are left"),
        (b"GGML" + b"\0" * 20, "does not begin with GGUF"),
        (head(version=1), "version 1"),
        (head(version=2**31), "version 128"),
        (head(version=0), "version 0"),
        (head(keys=2**64 - 1), "a key needs 8 bytes, but only 0"),
        (head() + number(2**63) + b"k" * 20, "a key needs 9223372036854775808 bytes"),
        (head() + number(10**6) + b"k" * 20, "a key needs 1000000 bytes"),
        (head() + KEY + struct.pack("<I", 13) + b"x" * 20, "type 13"),
        (head() + KEY + struct.pack("<I", 8) + number(2**40), "1099511627776 bytes"),
        (head() + LIST + struct.pack("<I", 4) + number(2**62), "needs 18446744073709551616 bytes"),
        (head() + LIST + struct.pack("<I", 10) + number(9) + b"x" * 9, "only 9 are left"),
        (head() + LIST + struct.pack("<I", 8) + number(2**62), "an item of 'k' needs 8 bytes"),
        (head() + LIST + struct.pack("<I", 77) + number(1) + b"x", "type 77"),
        (head() + LIST + DEEP, "recursion"),
    ],
)
def test_malformed_values_are_named(
    content: bytes, reason: str, wanted: str, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerLoadError, match=reason) as caught:
        read(content, tmp_path, wanted)
    assert len(str(caught.value)) < 400


def test_a_key_twice_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match="twice"):
        read(gguf([("a", 1), ("a", 2)]), tmp_path)
    with pytest.raises(TokenizerLoadError, match="No such file"):
        read_metadata(tmp_path / "none", bool)


@pytest.mark.parametrize("kept", [1, 2, 3, 10, 11, 23])
def test_a_file_that_shrinks_while_it_is_read(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is known, and then less is there."""
    whole = gguf([("k", ["abc", "de"])])
    monkeypatch.setattr(gguf_metadata._Reader, "__init__", _believing(len(whole)))
    with pytest.raises(TokenizerLoadError, match=r"file\.gguf'.*the file ends inside"):
        read(whole[:-kept], tmp_path)


def _believing(size: int) -> Callable[..., None]:
    """A reader that assumes that a file has this size."""
    honest = gguf_metadata._Reader.__init__
    return lambda self, file, _: honest(self, file, size)
