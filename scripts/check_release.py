"""List what is missing for a release. The exit status is 1 if something is.

    python scripts/check_release.py v0.1.0

The argument is the tag of the release. The workflow of a release runs this before it builds.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = ("pyproject.toml", "plugins/sglang/pyproject.toml", "plugins/vllm/pyproject.toml")
PLACEHOLDER = "example.org"


def problems(root: Path, tag: str) -> list[str]:
    """What has to change in the repository at ``root`` before ``tag`` is released."""
    projects = {path: tomllib.loads((root / path).read_text("utf-8")) for path in PROJECTS}
    version = projects["pyproject.toml"]["project"]["version"]
    return [
        *_of_versions(root, tag, projects),
        *_of_changelog((root / "CHANGELOG.md").read_text("utf-8"), version),
        *_of_addresses(root),
    ]


def _of_versions(root: Path, tag: str, projects: dict[str, Any]) -> Iterator[str]:
    version = projects["pyproject.toml"]["project"]["version"]
    if tag != f"v{version}":
        yield f"the tag is {tag}, and pyproject.toml has the version {version}"
    for path, content in projects.items():
        project = content["project"]
        if project["version"] != version:
            yield f"{path} has the version {project['version']}, not {version}"
        if path != "pyproject.toml" and f"streamdec=={version}" not in project["dependencies"]:
            yield f"{path} does not depend on streamdec=={version}"
    for file in [root / "CITATION.cff", *sorted(root.glob("plugins/*/streamdec_*/__init__.py"))]:
        text = file.read_text("utf-8")
        (found,) = re.findall(r"""^(?:version: |__version__ = ")([^"\n]+)""", text, re.MULTILINE)
        if found != version:
            yield f"{file.relative_to(root)} has the version {found}, not {version}"


def _of_changelog(text: str, version: str) -> Iterator[str]:
    headings: dict[str, str] = dict(re.findall(r"^## \[(.+?)\](?: - (.+))?$", text, re.MULTILINE))
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", headings.get(version, "")):
        yield f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD'"
    if text.partition("## [Unreleased]")[2].partition("\n## ")[0].strip():
        yield f"CHANGELOG.md has changes under [Unreleased] that belong to {version}"


def _of_addresses(root: Path) -> Iterator[str]:
    for path in PROJECTS:
        if PLACEHOLDER in (root / path).read_text("utf-8"):
            yield f"{path} has placeholders ({PLACEHOLDER}) for the addresses of the project"


def main(arguments: list[str]) -> int:
    """Print each problem, and return the exit status."""
    if len(arguments) != 1:
        print("usage: python scripts/check_release.py TAG", file=sys.stderr)
        return 2
    found = problems(ROOT, arguments[0])
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
