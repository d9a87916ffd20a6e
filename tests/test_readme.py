"""The README prints what it says, shows what was measured, and its commands are those tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.support.pages import ROOT, Page, printed_by_blocks

README = Page("README.md")
FEATURES = Page("docs/reference/features.md")
PROOF = Page("docs/explanation/proof.md")

READ = """
import anyio
async def engine():
    try:
        for place in range(0, 100, 2):
            yield token_ids[place : place + 2] or [token_ids[0]]
    finally:
        print("|closed")
for backend in ("asyncio", "trio"):
    for source in (token_ids, engine()):
        anyio.run(answer, source, backend=backend)
        print("|")
"""
"""The README's second example reads an engine; here it reads a list, and one that would go on."""


def test_the_examples_print_what_the_readme_says(tmp_path: Path) -> None:
    plain, waiting = README.of_kind("python")
    ((_, said),) = README.examples
    blocks = [(number, "python", code) for number, code in enumerate((plain, waiting, READ))]
    printed = printed_by_blocks(blocks, tmp_path)
    text = said.partition(" (")[0]
    assert text
    assert printed == [said, "", f"{text}|\n{text}|closed\n|\n" * 2]


def test_the_first_screen_has_the_guarantees_and_the_examples() -> None:
    first, *_ = README.text.split("\n## ")
    assert len(first.splitlines()) <= 48
    assert "**Alpha:**" in first
    guarantees = re.findall(r"^- \*\*.*?(?=^- |^\n)", first, re.MULTILINE | re.DOTALL)
    assert [bool(_links(each)) for each in guarantees] == [True] * 4
    assert (
        first.index("streamdec demo\n```") < first.index("```python") < first.index("at-work.svg")
    )


def test_the_figures_of_the_guarantees_are_those_of_the_page_of_proof() -> None:
    tokenizers, tokens = re.findall(
        r"^\| \*\*(\d+) tokenizers\*\* \| [\d,]+ \| ([\d,]+) .* 0 \|$", PROOF.text, re.MULTILINE
    )[0]
    million = round(int(tokens.replace(",", "")) / 1e6)
    first = re.sub(r"\s+", " ", README.text.partition("```")[0])
    assert f"{million} million tokens of {tokenizers} tokenizers" in first
    assert re.findall(r"([\d,]+) cases", first) == re.findall(
        r"no difference in ([\d,]+) cases", PROOF.text
    )
    assert "1,000,000 tokens" in Page("docs/explanation/performance.md", "Long streams").text


def test_one_line_installs_and_runs_the_demo() -> None:
    (line,) = [line for line in README.commands if line.endswith("streamdec demo")]
    assert line.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install ")
    assert "pip install -e '.[cli]'" in line


def test_the_pages_install_into_the_environment_that_the_readme_activates() -> None:
    pages = [README, *(Page(str(path.relative_to(ROOT))) for path in ROOT.glob("docs/**/*.md"))]
    installs = [
        f"{page.path}: {line}"
        for page in pages
        for _, body in page.blocks
        for line in body.splitlines()
        if "pip install" in line and "pytest" not in line
    ]
    assert len(installs) > 10
    assert [line for line in installs if "-m pip" in line or ".venv/bin/pip" in line] == []


def test_one_line_installs_and_passes_the_tests_and_is_the_line_that_ci_runs() -> None:
    (line,) = [line for line in README.commands if "pytest" in line]
    assert line.startswith("python3 -m venv .venv && ")
    assert "pip install -e '.[test]' && .venv/bin/python -m pytest" in line
    # The pattern with which .ci/run takes the line out of the README.
    (pattern,) = re.findall(r"grep -m 1 -E '([^']+)' README\.md", (ROOT / ".ci/run").read_text())
    assert re.findall(f"{pattern}.*", README.text, re.MULTILINE) == [line]


COLUMNS = {
    "**streamdec**": "**sd**",
    "HF": "HF",
    "TF": "TF",
    "mlx-lm": "MX",
    "vLLM": "vP",
    "SGLang": "SG",
    "llama.cpp": "LC",
}
"""The columns of the comparison, and those of the page of features."""


def test_the_comparison_agrees_with_the_page_of_features() -> None:
    (table,) = re.findall(r"^\| \| \*\*streamdec.*\n(?:\|.*\n)+", README.text, re.MULTILINE)
    head, _, *body = map(_cells, table.splitlines())
    assert head[1:] == [*COLUMNS]
    known: dict[str, dict[str, str]] = {}
    for found in re.findall(r"^\| \| \*\*sd\*\* \| HF.*\n(?:\|.*\n)+", FEATURES.text, re.MULTILINE):
        columns, _, *rows = map(_cells, found.splitlines())
        known |= {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    assert len(body) >= 6
    for row in body:
        assert row[1:] == [known[row[0]][column] for column in COLUMNS.values()], row[0]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def test_the_table_of_formats_agrees_with_the_page_of_formats() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    formats = Page("docs/explanation/formats.md").text
    rows = re.findall(r"^\| .+ \| `pip install '\.\[(.+)\]'` \|$", README.text, re.MULTILINE)
    assert rows == ["tiktoken", "sentencepiece", "transformers", "tiktoken,hub"]
    for extra in ",".join(rows).split(","):
        assert extra in extras["optional-dependencies"]
        assert re.search(rf"\| (?:–, or )?`{extra}`|extra `{extra}`", formats)


def test_every_engine_with_a_page_is_in_the_table() -> None:
    linked = re.findall(r"\[([\w -]+)\]\(docs/engines/([\w-]+)\.md\)", README.text)
    assert sorted(slug for _, slug in linked) == sorted(
        path.stem for path in (ROOT / "docs/engines").iterdir()
    )
    assert [name.lower() for name, _ in linked] == [slug for _, slug in linked]


LINK = re.compile(r"""(?:\]\(|\b(?:src|srcset)=")([^"):\s]+)[")]""")


def _links(text: str) -> list[str]:
    """What it links to within the repository, with the heading."""
    return LINK.findall(text)
