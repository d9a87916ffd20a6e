"""The files beside the code: what they say of the project is so."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.testing import BugCase
from tests.support.pages import ROOT, Page

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CHANGELOG, CONTRIBUTING, POLICY = map(
    Page, ["CHANGELOG.md", "CONTRIBUTING.md", "docs/reference/compatibility.md"]
)


def test_the_changelog_has_this_version_and_known_kinds_of_changes() -> None:
    headings = re.findall(r"^## \[(.+?)\](?: - (.+))?$", CHANGELOG.text, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1][0] == PROJECT["project"]["version"]
    assert all(re.fullmatch(r"unreleased|\d{4}-\d\d-\d\d", date) for _, date in headings[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", CHANGELOG.text, re.MULTILINE)) <= kinds


def _exists(name: str) -> bool:
    try:
        resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


@pytest.mark.parametrize("page", [CHANGELOG, CONTRIBUTING, POLICY], ids=lambda page: page.path)
def test_the_python_names_of_a_page_exist(page: Page) -> None:
    names = set(re.findall(r"`(streamdec(?:\.\w+)+)`", page.text))
    assert names
    assert [name for name in sorted(names) if not _exists(name)] == []


LINK = re.compile(r"""(?:\]\(|\b(?:src|srcset)=")([^")#:\s]*)#?([^"):\s]*)[")]""")


@pytest.mark.parametrize(
    "name", ["README.md", CONTRIBUTING.path, "RELEASING.md", "SECURITY.md", POLICY.path]
)
def test_the_paths_of_a_page_exist(name: str) -> None:
    text = Page(name).text
    top = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    paths = set(re.findall(rf"(?:^|[`\s(])((?:{top})/[\w./-]*\w)", text))
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    for path, anchor in set(LINK.findall(text)):
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.exists(), path
        assert not anchor or anchor in _anchors(page), (path, anchor)


def _anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", it).strip().lower().replace(" ", "-") for it in headings}


def test_the_tests_of_each_engine_exist() -> None:
    """Each has a session of nox, and the dependency group that it needs."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    [engines] = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENGINES"
    )
    assert engines.keys() <= PROJECT["dependency-groups"].keys()
    folders = [Path(path) for paths in engines.values() for path in paths]
    there = [path for path in folders if (ROOT / path.parts[0]).exists()]  # an sdist has no plugins
    assert [path for path in there if not (ROOT / path).exists()] == []


def test_the_files_of_the_sdist_exist() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert [path for path in included if not (ROOT / path).exists()] == []
    beside = {path.name for path in ROOT.glob("*.md")} | {"CITATION.cff", "noxfile.py"}
    assert beside <= set(included)


def _on_the_index(text: str) -> str:
    """README.md as the build rewrites it, with the version of a release."""
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text.replace("$HFPR_VERSION", PROJECT["project"]["version"])


def test_links_and_images_of_the_description_are_absolute() -> None:
    readme = Page("README.md").text
    link = re.compile(r"""(?:\]\(|\b(?:src|srcset)=")([^")\s]+)[")]""")
    before, after = (link.findall(text) for text in (readme, _on_the_index(readme)))
    assert len(before) > 40
    assert len(after) == len(before)
    source = PROJECT["project"]["urls"]["Source"]
    version = PROJECT["project"]["version"]
    for path, address in zip(before, after, strict=True):
        if path.startswith("#"):
            assert address == path
        else:
            kind = "raw" if path.endswith(".svg") else "blob"
            assert address == f"{source}/{kind}/v{version}/{path}"


def test_the_bug_case_of_the_guide_is_valid() -> None:
    (row,) = map(json.loads, CONTRIBUTING.of_kind("json"))
    tokens = [bytes.fromhex(token) for token in row.pop("tokens")]
    case = BugCase(tokens=tuple(tokens), **row)
    stream = DecodeStream(MockTokenizer.from_tokens(tokens))
    text = "".join(map(stream.step, range(len(tokens)))) + stream.flush()
    assert text == case.expected_text
