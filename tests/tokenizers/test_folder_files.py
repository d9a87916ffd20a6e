"""Every file of a model's folder is read by one reader, which bounds what it reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streamdec import HuggingFaceTokenizer, TokenizerLoadError
from streamdec.chat.sources import from_snapshot
from streamdec.errors import ChatTemplateError
from streamdec.folders.tokenizer_config import read_object
from streamdec.preflight import inspect
from streamdec.tokenizers import TekkenTokenizer, TiktokenTokenizer, folder_files
from streamdec.tokenizers.folder_files import (
    MAX_FILE,
    FileError,
    parse_json,
    read_bounded,
    read_file,
)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**26 + 1)


BAD: dict[str, Callable[[Path], object]] = {
    "lfs": lambda path: path.write_bytes(POINTER),
    "too-large": large,
    "unreadable": Path.mkdir,
}
if hasattr(os, "mkfifo"):
    BAD["a pipe"] = os.mkfifo


@pytest.mark.parametrize("problem", BAD)
def test_a_file_that_cannot_be_read_is_a_problem_and_does_not_block(
    problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer_config.json"
    BAD[problem](path)
    with pytest.raises(FileError) as raised:
        read_file(path, 2**26)
    assert raised.value.problem == ("unreadable" if problem == "a pipe" else problem)
    with pytest.raises(FileError, match=r"^File name too long$"):
        read_file(tmp_path / ("a" * 5_000), 2**26)


@pytest.mark.parametrize("problem", ["lfs", "too-large"])
def test_loading_templates_and_preflight_refuse_the_same_file(problem: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    BAD[problem](path)
    with pytest.raises(FileError) as raised:
        read_file(path, 2**24)
    with pytest.raises(TokenizerLoadError) as loading:
        read_object(tmp_path, path.name)
    with pytest.raises(ChatTemplateError) as chat:
        from_snapshot(tmp_path)
    [finding] = [
        f for f in inspect(tmp_path).findings if f.code in ("FILE_LFS_POINTER", "FILE_TOO_LARGE")
    ]
    said = str(raised.value).partition(", more")[0]
    for text in (str(loading.value), str(chat.value), finding.evidence[0].note):
        assert said in text
    for text in (str(loading.value), str(chat.value)):
        assert text.count(path.name) == 1


def test_the_number_of_values_is_bounded_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folder_files, "MAX_CONTAINERS", 3)
    monkeypatch.setattr(folder_files, "MAX_VALUES", 3)
    assert parse_json(b"[[], {}]") == [[], {}]
    for content in (b"[[], {}, []]", b"[1, 2, 3, 4, 5]"):
        with pytest.raises(FileError, match="or more"):
            parse_json(content)


@pytest.mark.parametrize(
    ("content", "said", "line"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark", 1),
        (b"{\n1", "property name", 2),
        (b'"\xff"', "not UTF-8: byte 1", None),
        (b"[" * 90_000, "recursion", None),
        (b"1" * 5_000, "4300", None),
    ],
)
def test_the_error_for_invalid_json_has_the_place(
    content: bytes, said: str, line: int | None
) -> None:
    with pytest.raises(FileError, match=said) as raised:
        parse_json(content)
    assert (raised.value.problem, raised.value.line) == ("json", line)


@pytest.mark.parametrize("name", ["none", ".", "a\0b", "a" * 5_000, "ranks"])
def test_an_unreadable_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "ranks").write_bytes(b"12345")
    assert read_bounded(tmp_path / "ranks", 5) == b"12345"
    told = "5 bytes, more than 4" if name == "ranks" else ""
    with pytest.raises(TokenizerLoadError, match=f"{repr(str(tmp_path))[:-1]}.*{told}"):
        read_bounded(tmp_path / name, 4)


@pytest.mark.thorough
@pytest.mark.parametrize("made", [HuggingFaceTokenizer, TekkenTokenizer, TiktokenTokenizer])
def test_no_backend_reads_an_endless_file(made: Callable[[Path], object], tmp_path: Path) -> None:
    """It has no bytes on the disk, and would take all memory."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b'{"model": {}}')
    os.truncate(path, MAX_FILE + 1)
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json': .*more than 268435456"):
        made(path)
