"""Added tokens and roles of ``load_tokenizer(folder)``, ``inspect(folder)`` and transformers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from streamdec import load_tokenizer
from streamdec.chat.sources import special_tokens_of
from streamdec.errors import StreamdecWarning
from streamdec.folders.folder_tokens import Token
from streamdec.folders.tokenizer_config import ROLES
from streamdec.preflight import discover_added_tokens, inspect
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import Tokens, Vocabulary
from streamdec.tokenizers import HybridTokenizer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer
from tests.folders.test_class_pipelines import ROWS, drawn
from tests.preflight.changes import CASES, both, drop, flag
from tests.preflight.making import SPECIAL, added, control

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


def test_a_role_makes_a_token_special_whose_flags_no_other_file_declares(tmp_path: Path) -> None:
    folder = control(both(drop("added_tokens_decoder"), flag(2, special=False))).write(tmp_path)
    assert check(folder)
    assert quietly(folder).decode([258]) == ""
    assert "SPECIAL_FLAG_DRIFT" in inspect(folder, render=False).codes


DATA = json.loads((Path(__file__).parent / "data" / "loads.json").read_text("utf-8"))
"""Written by ``scripts/make_preflight_goldens.py``."""


def write_loaded(files: dict[str, Any], folder: Path) -> Path:
    """Writes a folder that transformers loaded."""
    parts = control()
    assert parts.tokenizer is not None
    parts.tokenizer["added_tokens"] = files["added_tokens"]
    parts.tokenizer_config, parts.config = files["tokenizer_config.json"], files["config.json"]
    parts.generation = None
    others = ("special_tokens_map.json", "added_tokens.json")
    parts.others = {name: files[name] for name in others if name in files}
    return parts.write(folder)


@pytest.mark.parametrize("index", range(len(DATA["entries"])))
def test_a_snapshot_is_loaded_as_by_transformers(index: int, tmp_path: Path) -> None:
    entry = DATA["entries"][index]
    tokens = Tokens(Snapshot(write_loaded(entry["files"], tmp_path)))
    eos = tokens.roles.get("eos_token")
    name = tokens.folder.chosen.name
    if name == "MistralCommonBackend":  # without mistral-common, as for this data
        name = "TokenizersBackend"
    assert {
        "class": name,
        "eos_token_id": None if eos is None else tokens.id_of(eos.text),
        "roles": {name: role.text for name, role in sorted(tokens.roles.items())},
        "added": {str(i): [text, special] for i, (text, special) in tokens.added.items()},
    } == entry["loaded"]


texts = st.sampled_from(["a", "é", "<x>", "<y>", "<z>", "<|im_end|>", "<|pad|>", ""])
# Of several with one text in one call tokenizers 0.22 takes the first, later ones the last.
DOUBLES = tuple(map(int, tokenizers.__version__.split(".")[:2])) >= (0, 23)
tokens_to_add = st.lists(
    st.builds(Token, texts, special=st.booleans()),
    max_size=6,
    unique_by=None if DOUBLES else lambda token: token.content,
)
ids = st.integers(256, 266)


@given(st.lists(st.tuples(ids, texts.filter(bool)), max_size=5), tokens_to_add, tokens_to_add)
def test_added_tokens_get_the_ids_that_the_library_gives(
    own: list[tuple[int, str]], first: list[Token], second: list[Token]
) -> None:
    """For any declarations, gaps and doubles included, and tokens that are added several times."""
    parts = control()
    assert parts.tokenizer is not None
    own = [*own, *((256 + i, text) for i, text in enumerate(SPECIAL))]
    parts.tokenizer["added_tokens"] = [{"id": i, **added(text)} for i, text in own]
    for builds in (False, True):
        if builds:
            parts.tokenizer["added_tokens"] = []
        library = tokenizers.Tokenizer.from_str(json.dumps(parts.tokenizer))
        given = () if builds else (Token(text, special=True) for _, text in own)
        ours = Vocabulary(parts.tokenizer["model"]["vocab"], [*given, *first, *second])
        library.add_tokens(first)
        library.add_tokens(second)
        theirs = library.get_added_tokens_decoder()
        assert ours.added == {i: (token.content, token.special) for i, token in theirs.items()}
        for text in (*SPECIAL, "a", "é", "<x>", "<y>", "<z>", "!"):
            assert ours.id_of(text) == library.token_to_id(text)
        for token_id in (*range(254, 275), 0, 10**6):
            assert ours.text_of(token_id) == library.id_to_token(token_id)
        assert ours.text_of(-1) is ours.text_of(2**40) is None
