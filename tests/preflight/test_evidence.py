"""The evidence of each finding is true, and says what its rule claims.

Folders are drawn: the control with some changes. The oracle is the content of the files,
and what the tokenizers library loads from them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from streamdec import load_tokenizer
from streamdec.errors import StreamdecError, StreamdecWarning
from streamdec.preflight import Evidence, Finding, Report, inspect
from streamdec.tokenizers import HybridTokenizer
from tests.preflight.changes import CASES, config, entry, file, flag, generation, own, say
from tests.preflight.making import SPECIAL, Parts, control

FILES = ("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json")


@dataclass
class Folder:
    """A folder as its files and the library tell it."""

    path: Path
    report: Report

    def json(self, name: str) -> Any:
        """The content of a file; None if it is missing or is not JSON."""
        try:
            return json.loads((self.path / name).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def at(self, name: str, pointer: str) -> Any:
        """The value at a pointer. Raises LookupError if there is none."""
        value = self.json(name)
        for key in pointer.split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value

    @cached_property
    def bare(self) -> Tokenizer:
        """``tokenizer.json`` alone."""
        return Tokenizer.from_file(str(self.path / "tokenizer.json"))

    @cached_property
    def loaded(self) -> Tokenizer | None:
        """The library's tokenizer with the other files applied; None if none is made."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StreamdecWarning)
            try:
                tokenizer = load_tokenizer(self.path, fast="off")
            except StreamdecError:
                return None
        return tokenizer._tokenizer if isinstance(tokenizer, HybridTokenizer) else None

    @property
    def template(self) -> str:
        """All that may be a template."""
        texts = [(self.path / name).read_bytes() for name in FILES if (self.path / name).is_file()]
        texts += [path.read_bytes() for path in self.path.rglob("*.jinja")]
        return b"".join(texts).decode("utf-8", "replace")


def special_of(tokenizer: Tokenizer, token_id: int) -> bool | None:
    token = tokenizer.get_added_tokens_decoder().get(token_id)
    return None if token is None else token.special


Claim = Callable[[Folder, Evidence, int, str], object]
"""Of an id of the evidence, with its text."""


def after(folder: Folder) -> Tokenizer:
    assert folder.loaded is not None
    return folder.loaded


def drifts(folder: Folder, e: Evidence, i: int, text: str) -> bool:
    before, now = special_of(folder.bare, i), special_of(after(folder), i)
    assert folder.at(e.file, e.pointer)["id"] == i
    assert folder.bare.id_to_token(i) == after(folder).id_to_token(i) == text
    assert (e.value["tokenizer.json"], e.value["after loading"]) == (before, now)
    return before is not None and before != now


def content_drifts(folder: Folder, e: Evidence, i: int, text: str) -> bool:
    assert folder.at(e.file, e.pointer)["content"] == text
    other = folder.bare.id_to_token(i)
    return folder.bare.token_to_id(text) is None and other not in (None, text)


def only_in_config(folder: Folder, e: Evidence, i: int, text: str) -> bool:
    assert folder.at(e.file, e.pointer)["content"] == text
    return folder.bare.token_to_id(text) is None and folder.bare.id_to_token(i) is None


def not_honoured(folder: Folder, e: Evidence, i: int, text: str) -> bool:
    assert folder.at(e.file, e.pointer)["id"] == i
    return i != folder.bare.token_to_id(text) or i != after(folder).token_to_id(text)


def not_skipped(folder: Folder, e: Evidence, i: int, text: str) -> bool:
    listed = folder.at(e.file, e.pointer)
    listed = list(listed.values()) if isinstance(listed, dict) else listed
    assert text in [each["content"] if isinstance(each, dict) else each for each in listed]
    return after(folder).decode([i], skip_special_tokens=True) != ""


def structural(folder: Folder, _: Evidence, i: int, text: str) -> bool:
    return special_of(after(folder), i) is False and json.dumps(text)[1:-1] in folder.template


CLAIMS: Mapping[str, Claim] = {
    "SPECIAL_FLAG_DRIFT": drifts,
    "ADDED_TOKEN_CONTENT_DRIFT": content_drifts,
    "ADDED_TOKEN_ONLY_IN_CONFIG": only_in_config,
    "ADDED_TOKEN_ID_NOT_HONOURED": not_honoured,
    "EXTRA_SPECIAL_NOT_SKIPPED": not_skipped,
    "STRUCTURAL_TOKEN_NOT_SPECIAL": structural,
}
DECLARED = ("ADDED_TOKEN", "EOS_TOKEN_NOT_IN_VOCAB")
"""Codes about ids that a file declares and loading does not give."""


def check_places(folder: Folder, finding: Finding) -> None:
    """Files and pointers exist, simple values are those of the file, texts those of the ids."""
    for e in finding.evidence:
        is_absent = e.note.startswith(("not there", "no ")) or finding.code.endswith("_MISSING")
        if e.file and not is_absent and "/" not in e.file:
            assert (folder.path / e.file).exists(), (finding.code, e)
        # The value beside a template may be what it rendered.
        if e.file.endswith(".json") and e.pointer not in ("", "/chat_template"):
            there = folder.at(e.file, e.pointer)
            if isinstance(e.value, str | int | bool) and isinstance(there, str | int | bool):
                assert e.value == there, (finding.code, e)
        if not finding.code.startswith(DECLARED) and folder.loaded is not None:
            for i, text in e.ids.items():
                assert folder.loaded.id_to_token(i) == text, (finding.code, e)


def check(path: Path, report: Report) -> None:
    """Check the findings of a report on a folder whose tokenizer can be loaded."""
    folder = Folder(path, report)
    is_remote = "TOKENIZER_REMOTE_CODE" in report.codes
    has_tokenizer = not report.codes & {"TOKENIZER_JSON_MISSING", "TOKENIZER_JSON_INVALID"}
    for finding in report.findings:
        if has_tokenizer and not is_remote and folder.loaded is not None:
            check_places(folder, finding)
            if claim := CLAIMS.get(finding.code):
                ids = [(e, i, text or "") for e in finding.evidence for i, text in e.ids.items()]
                assert ids
                assert all(claim(folder, *each) for each in ids), str(finding)


TEXTS = st.sampled_from((*SPECIAL, "<u>", "<tool>", "</s>", "a"))
IDS = st.sampled_from((0, 97, 256, 257, 258, 259, 260, 261, 900, None, "x", [], [258], [256, 258]))
ROLES = st.sampled_from(("eos_token", "bos_token", "pad_token", "image_token"))
LISTS = st.one_of(st.lists(TEXTS, max_size=2), st.dictionaries(ROLES, TEXTS, max_size=2))
CHANGES: st.SearchStrategy[Callable[[Parts], object]] = st.one_of(
    st.sampled_from([*CASES.values()]),
    st.builds(flag, st.integers(0, 3), special=st.booleans()),
    st.builds(own, st.integers(260, 262), TEXTS, special=st.booleans()),
    st.builds(entry, st.integers(256, 262), TEXTS, special=st.booleans()),
    st.builds(lambda name, text: say(**{name: text}), ROLES, TEXTS),
    st.builds(lambda listed: say(extra_special_tokens=listed), LISTS),
    st.builds(lambda listed: say(additional_special_tokens=listed), LISTS),
    st.builds(lambda ids: config(eos_token_id=ids), IDS),
    st.builds(lambda ids: generation(eos_token_id=ids), IDS),
    st.builds(lambda ids: config(text_config={"eos_token_id": ids}), IDS),
    st.builds(lambda name: config(model_type=name), st.sampled_from(("qwen2", "gemma", "gpt2"))),
    st.builds(lambda name, text: file("special_tokens_map.json", {name: text}), ROLES, TEXTS),
)

LISTED = st.lists(CHANGES, min_size=1, max_size=5)


@given(LISTED)
def test_the_evidence_of_drawn_folders_is_true(changes: list[Callable[[Parts], object]]) -> None:
    parts = control()
    for change in changes:
        try:
            change(parts)
        except (AssertionError, KeyError, TypeError, AttributeError):
            continue  # an earlier change took away what this one changes
    with TemporaryDirectory() as name:
        folder = parts.write(Path(name))
        check(folder, inspect(folder, render=False))
