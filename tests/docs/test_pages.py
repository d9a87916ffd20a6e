"""Every block of code in the documentation is run, and prints what its page says.

The blocks of a page run from top to bottom in one process. Pages about servers, engines and
libraries that are not always installed are run by other tests, which are named here.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Page, printed_by_blocks

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")}
"""By their paths from the root."""

READMES = ["README.md", "fuzz/README.md", "plugins/sglang/README.md", "plugins/vllm/README.md"]
OWN_PAGES = [*sorted(PAGES), *READMES]
"""Those that say what to install."""

RUN_BY = {
    "docs/explanation/performance.md": ["tests/test_benchmarks.py"],
    "docs/how-to/decode-a-dataset.md": ["tests/bulk/test_tables.py"],
    **{
        f"docs/engines/{name}.md": ["tests/integrations/outputs/test_pages.py"]
        for name in ("dynamo", "lmdeploy", "sglang", "tensorrt-llm")
    },
    "docs/engines/llama-cpp-python.md": ["tests/integrations/llama_cpp/test_llama_cpp.py"],
    "docs/engines/mlx-lm.md": ["tests/integrations/mlx_lm/test_mlx_lm.py"],
    "docs/engines/transformers.md": ["tests/integrations/transformers/test_generate.py"],
    "docs/engines/vllm.md": ["plugins/vllm/tests/test_vllm_plugin.py"],
    "docs/how-to/serve-an-engine.md": ["tests/server/test_docs.py"],
    "docs/how-to/serve-sse.md": ["tests/integrations/wire/test_page.py"],
    "docs/how-to/train.md": ["tests/bulk/test_rollouts.py"],
    "docs/how-to/your-engine.md": ["tests/integrations/moving/test_page.py"],
    "docs/reference/metrics.md": ["tests/metrics/test_metrics.py"],
    "docs/tutorial.md": ["tests/docs/test_serve_page.py"],
}
"""The tests that run the blocks of a page, where it is not this one."""

MOVING = "Move a stream to another process"
PARTS = [
    Page("docs/tutorial.md", until="Serve it"),
    Page("docs/how-to/your-engine.md", until=MOVING),
    Page("docs/engines/vllm.md", "Coming from vLLM"),
]
"""Parts of these pages that are run here."""

SLOW = {
    "docs/how-to/check-a-model.md",
    "docs/how-to/check-your-detokenizer.md",
    "docs/how-to/write-a-backend.md",
}
"""Pages that take seconds: they run preflight many times, and the laws."""

NOT_CODE = {"python no-run", "html", "json", "jsonl", "text", "toml", "yaml", "{toctree}"}
BLOCK = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: Page) -> list[tuple[int, str, str, str | None]]:
    """Each block of code: its line, kind and code, and the output on the page."""
    text = page.text
    found: list[tuple[int, str, str, str | None]] = []
    end = -1
    for match in BLOCK.finditer(text):
        kind, body = match.groups()
        if kind == "text" and found and not text[end : match.start()].strip():
            found[-1] = (*found[-1][:3], body)
        elif kind not in NOT_CODE and not kind.startswith("{"):
            found.append((text.count("\n", 0, match.start()) + 1, kind, body, None))
        end = match.end()
    return found


def _installs(kind: str, code: str) -> bool:
    """Whether a block does nothing but install: the packages' own tests do that."""
    return kind == "sh" and all(
        re.match(r"(\S*python3? -m )?pip install ", it) for it in code.splitlines()
    )


@pytest.mark.parametrize(
    "page",
    [
        *(
            pytest.param(Page(page), marks=pytest.mark.thorough if page in SLOW else (), id=page)
            for page in sorted(PAGES - RUN_BY.keys())
        ),
        *(pytest.param(part, id=f"part of {part.path}") for part in PARTS),
    ],
)
def test_the_blocks_of_a_page_print_what_it_says(page: Page, tmp_path: Path) -> None:
    blocks = [block for block in _blocks(page) if not _installs(block[1], block[2])]
    assert {kind for _, kind, _, _ in blocks} <= {"python", "sh"}
    assert blocks or page not in PARTS
    if not blocks:
        return
    printed = printed_by_blocks([block[:3] for block in blocks], tmp_path)
    said = {f"{page.path}:{line}": text for line, _, _, text in blocks if text is not None}
    assert {
        f"{page.path}:{line}": out
        for (line, _, _, text), out in zip(blocks, printed, strict=True)
        if text is not None
    } == said


def test_pages_excluded_here_are_run_by_their_own_tests() -> None:
    for page, tests in RUN_BY.items():
        assert _blocks(Page(page))
        assert all(Path(page).name in Path(ROOT, test).read_text("utf-8") for test in tests)


SHORT = [
    *map(Page, ["docs/how-to/decode-a-dataset.md", "docs/how-to/serve-an-engine.md"]),
    Page("docs/how-to/your-engine.md", MOVING),
    *map(Page, sorted(page for page in PAGES if page.startswith("docs/engines/"))),
]


@pytest.mark.parametrize("page", SHORT, ids=lambda page: page.path)
def test_an_example_of_an_engine_or_a_library_has_at_most_ten_lines(page: Page) -> None:
    examples = [code for kind, code in page.blocks if kind.startswith("python")]
    assert max(sum(map(bool, code.splitlines())) for code in examples) <= 10


PROJECT = tomllib.loads(Path(ROOT, "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_each_extra_that_a_page_names_exists() -> None:
    asked = {extra for page in OWN_PAGES for extra in extras_of(Page(page).text)}
    assert len(asked) > 5
    assert asked <= EXTRAS.keys()


def extras_of(text: str) -> set[str]:
    """The extras that a page names, in install lines and in words, and those that they install."""
    lines = re.findall(r"(?:streamdec|['\" ]\.)\[([a-z,]+)\]", text)
    lines += re.findall(r"\b(?:[Nn]eeds the extra `?|extra `)(\w+)", text)
    named = {extra for names in lines for extra in names.split(",")}
    inside = (extras_of(each) for extra in named & EXTRAS.keys() for each in EXTRAS[extra])
    return named.union(*inside)


FROM_AN_INDEX = re.compile(r"pip install (?:[^`\n&]* )?['\"]?streamdec")
FROM_A_CLONE = re.compile(
    r"pip install (?!-e |.*--group)(?:[^`\n]* )?['\"]?\.(?:[\[\s/]|$)", re.MULTILINE
)
"""Editable installations and dependency groups need a clone also after the first release."""


def test_install_lines_work_before_and_after_the_first_release() -> None:
    published = "not on a package index" not in Page("README.md").text
    wrong = FROM_A_CLONE if published else FROM_AN_INDEX
    found = {page: wrong.findall(Page(page).text) for page in OWN_PAGES}
    assert {page: lines for page, lines in found.items() if lines} == {}


def test_the_laws_are_numbered_in_order() -> None:
    """Messages, tests and other pages name them by their numbers."""
    text = Page("docs/explanation/laws.md").text
    laws = re.findall(r"^\*\*(\d+)\. [^*]+\*\*", text, re.MULTILINE)
    assert laws == [str(number) for number in range(20)]
