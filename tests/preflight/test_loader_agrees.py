"""``load_tokenizer(folder)`` and ``inspect(folder)`` have the same added tokens."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.chat.sources import special_tokens_of
from streamdec.errors import StreamdecWarning
from streamdec.folders.tokenizer_config import ROLES
from streamdec.preflight import discover_added_tokens, inspect
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import Tokens
from streamdec.tokenizers import HybridTokenizer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer
from tests.folders.test_class_pipelines import ROWS, drawn
from tests.preflight.changes import CASES
from tests.preflight.making import control

Added = dict[int, tuple[Any, ...]]


def added_of(tokenizer: LoadedTokenizer) -> Added:
    assert isinstance(tokenizer, HybridTokenizer)
    tokens = tokenizer._tokenizer.get_added_tokens_decoder()
    found = {i: (t.content, t.special) for i, t in sorted(tokens.items())}
    # The library still skips tokens that were special before their flag was changed. It does not
    # skip a special token that the normalizer changes.
    special = [i for i, token in tokens.items() if token.special and not token.normalized]
    assert all(map(tokenizer.is_skipped, special))
    assert all((tokenizer.decode([i]) == "") == tokenizer.is_skipped(i) for i in found)
    return found


def inspected(folder: Path) -> Added:
    return {i: (t.content, t.special) for i, t in discover_added_tokens(folder).items()}


def check(folder: Path) -> bool:
    """Whether transformers' class is followed; then nothing may differ."""
    tokens = Tokens(Snapshot(folder))
    if tokens.loaded is None or tokens.folder.is_remote:
        return False
    tokenizer = quietly(folder)
    assert isinstance(tokenizer, HybridTokenizer)
    changes = tokenizer.tokenizer_config_changes
    assert changes is not None
    if changes.not_followed:
        return False
    assert added_of(tokenizer) == inspected(folder)
    check_roles(folder, tokenizer)
    return True


def check_roles(folder: Path, tokenizer: LoadedTokenizer) -> None:
    """Loader, chat and preflight give the same token and id to each role."""
    seen = special_tokens_of(folder)
    tokens = Tokens(Snapshot(folder))
    for name in ROLES:
        text = getattr(tokenizer.special_tokens, name)
        if name in seen and tokenizer.token_to_id(seen[name]) is not None:
            assert text == seen[name]
        if name in tokens.roles and tokens.id_of(tokens.roles[name].text) is not None:
            found = tokens.roles[name].text
            assert (text, tokenizer.token_to_id(text)) == (found, tokens.id_of(found))


def quietly(folder: Path, **options: Any) -> LoadedTokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamdecWarning)
        return load_tokenizer(folder, fast="off", **options)


FIRST = {(row["class"], row["form"]): row for row in reversed(ROWS)}.values()
"""One folder of each class; a quick run has others in test_class_pipelines.py."""


@pytest.mark.parametrize(
    "row",
    [row if row in FIRST else pytest.param(row, marks=pytest.mark.thorough) for row in ROWS],
    ids=lambda row: f"{row['class']}-{row['form']}",
)
@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_the_loader_and_preflight_agree_on_all_classes(row: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = drawn(row, tmp_path)
    if tokenizer is None:
        return
    if row["form"] == "tokenizer.json":
        assert check(tmp_path)
    else:
        check_roles(tmp_path, tokenizer)


@pytest.mark.parametrize("code", CASES)
@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_the_loader_and_preflight_agree_on_a_folder_for_each_finding(
    code: str, tmp_path: Path
) -> None:
    folder = control(CASES[code]).write(tmp_path)
    tokens = Tokens(Snapshot(folder))
    report = inspect(folder, render=False)
    if report.codes & {"ADDED_TOKENS_DECODER_SHAPE", "FILE_INVALID_JSON", "FILE_OUTSIDE_FOLDER"}:
        return  # which the loader rejects, or reads from its place
    is_known = not tokens.folder.chosen.unknown
    assert check(folder) == is_known or tokens.loaded is None or tokens.folder.is_remote
