"""``load_tokenizer(folder)`` and ``inspect(folder)`` have the same added tokens."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from streamdec import HybridTokenizer, load_tokenizer
from streamdec.errors import StreamdecWarning, TokenizerLoadError
from streamdec.preflight import discover_added_tokens, inspect
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import Tokens
from tests.backends.test_apply_tokenizer_config import DRAWN, folder_of
from tests.preflight.making import SHARED, control
from tests.preflight.test_findings import CASES
from tests.preflight.test_snapshot_tokens import DATA, write_loaded

SNAPSHOTS = sorted(path.parent for path in SHARED.glob("*/tokenizer.json"))
BUILT_TOO = {"ADDED_TOKEN_ID_NOT_HONOURED", "EXTRA_SPECIAL_NOT_SKIPPED"}
"""What is found where a class that builds its tokenizer from the vocabulary makes a difference."""

Added = dict[int, tuple[Any, ...]]


def loaded(folder: Path, **options: Any) -> Added:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamdecWarning)
        tokenizer = load_tokenizer(folder, fast="off", **options)
    assert isinstance(tokenizer, HybridTokenizer)
    tokens = tokenizer._tokenizer.get_added_tokens_decoder()
    found = {
        i: (t.content, t.special, t.single_word, t.lstrip, t.rstrip, t.normalized)
        for i, t in sorted(tokens.items())
    }
    # The library goes on skipping what was special before its flag was changed.
    assert all(tokenizer.is_skipped(i) for i, (_, special, *_) in found.items() if special)
    assert all((tokenizer.decode([i]) == "") == tokenizer.is_skipped(i) for i in found)
    return found


def inspected(folder: Path, **options: Any) -> Added:
    return {
        i: (t.content, t.special, t.single_word, t.lstrip, t.rstrip, t.normalized)
        for i, t in discover_added_tokens(folder, **options).items()
    }


def ids_and_special(tokens: Added) -> dict[int, tuple[Any, ...]]:
    return {i: values[:2] for i, values in tokens.items()}


def check(folder: Path) -> bool:
    """Whether the class is one with which nothing may differ."""
    tokens = Tokens(Snapshot(folder))
    if tokens.loaded is None:
        return False
    assert inspected(folder, apply_tokenizer_config=False) == loaded(
        folder, apply_tokenizer_config=False
    )
    if tokens.is_remote or tokens.is_built:
        return False
    ours, theirs = ids_and_special(loaded(folder)), ids_and_special(inspected(folder))
    assert ours == theirs
    report = inspect(folder, render=False)
    for name, token in report.special_tokens.items():
        assert token.resolved, name
        assert load_tokenizer(folder, fast="off").token_to_id(token.text) == token.id
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("row", DRAWN)
@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_of_folders_drawn_at_random(row: dict[str, Any], tmp_path: Path) -> None:
    assert check(folder_of(row, tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("entry", DATA["entries"])
@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_of_folders_of_many_classes(entry: dict[str, Any], tmp_path: Path) -> None:
    """Where a class builds its tokenizer, what it loses is told, or it adds tokens of its own."""
    folder = write_loaded(entry["files"], tmp_path)
    is_generic = check(folder)
    assert is_generic == (entry["loaded"]["class"] == "TokenizersBackend")
    if ids_and_special(loaded(folder)) != ids_and_special(inspected(folder)):
        tokenizer = load_tokenizer(folder, fast="off")
        assert isinstance(tokenizer, HybridTokenizer)
        assert tokenizer.tokenizer_config_changes is not None
        roles = Tokens(Snapshot(folder)).roles.values()
        assert tokenizer.tokenizer_config_changes.undeclared or any(
            not role.pointer for role in roles
        )


@pytest.mark.parametrize("code", CASES)
@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_of_a_folder_for_each_finding(code: str, tmp_path: Path) -> None:
    folder = control(CASES[code][1]).write(tmp_path)
    tokens = Tokens(Snapshot(folder))
    report = inspect(folder, render=False)
    if report.codes & {"ADDED_TOKENS_DECODER_SHAPE", "FILE_INVALID_JSON", "FILE_OUTSIDE_FOLDER"}:
        return  # which the loader refuses, or reads from where it is
    assert check(folder) or tokens.loaded is None or tokens.is_remote or tokens.is_built


@pytest.mark.parametrize("folder", SNAPSHOTS, ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_of_real_snapshots(folder: Path) -> None:
    """Where a class builds its tokenizer from the vocabulary, a difference is a finding."""
    if "FILE_LFS_POINTER" in inspect(folder, render=False).codes:
        with pytest.raises(TokenizerLoadError, match="LFS pointer"):
            load_tokenizer(folder)
        return
    is_same = ids_and_special(loaded(folder)) == ids_and_special(inspected(folder))
    if not check(folder) and not is_same:
        assert inspect(folder, render=False).codes & BUILT_TOO
