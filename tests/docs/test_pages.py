"""Every block of code in the documentation is run, and prints what its page says.

The blocks of a page run from top to bottom in one process. Pages about servers, engines and
libraries that not everybody has are run by tests of their own, which are named here.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Page, make_model_folder, printed_by_blocks

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")}
"""By their paths from the root."""

RUN_BY = {
    "docs/explanation/performance.md": "tests/performance/test_page.py",
    "docs/how-to/check-your-detokenizer.md": "tests/testing/test_how_to.py",
    "docs/how-to/check-your-parser.md": "tests/testing/test_parser_page.py",
    "docs/how-to/coming-from-mlx-lm.md": "tests/docs/test_coming_from_mlx_lm.py",
    "docs/how-to/coming-from-transformers.md": "tests/docs/test_coming_from_transformers.py",
    "docs/how-to/coming-from-vllm.md": "tests/docs/test_coming_from_vllm.py",
    "docs/how-to/debug-a-stream.md": "tests/trace/test_docs.py",
    "docs/how-to/decode-a-dataset.md": "tests/bulk/test_tables.py",
    "docs/how-to/evaluate.md": "tests/integrations/lm_eval/test_page.py",
    "docs/how-to/migrate-a-stream.md": "tests/integrations/moving/test_page.py",
    "docs/how-to/serve-an-engine.md": "tests/server/test_docs.py",
    "docs/how-to/serve-sse.md": "tests/integrations/wire/test_page.py",
    "docs/how-to/train.md": "tests/bulk/test_rollouts.py",
    "docs/how-to/why-does-my-model-misbehave.md": "tests/preflight/test_questions_page.py",
    "docs/how-to/wrap-dynamo.md": "tests/integrations/outputs/test_pages.py",
    "docs/how-to/wrap-llama-cpp-python.md": "tests/integrations/llama_cpp/test_docs.py",
    "docs/how-to/wrap-mlx-lm.md": "tests/integrations/mlx_lm/test_docs.py",
    "docs/how-to/wrap-sglang.md": "tests/integrations/outputs/test_pages.py",
    "docs/how-to/wrap-tensorrt-llm.md": "tests/integrations/outputs/test_pages.py",
    "docs/how-to/wrap-transformers.md": "tests/integrations/transformers/test_docs.py",
    "docs/how-to/wrap-vllm.md": "tests/integrations/vllm/test_front_half.py",
    "docs/reference/cli.md": "tests/cli/test_reference_page.py",
    "docs/reference/metrics.md": "tests/metrics/test_docs.py",
    "docs/tutorial/serve.md": "tests/docs/test_serve_page.py",
}
"""The test that runs the blocks of a page, where it is not this one."""

SLOW = {"docs/how-to/write-a-backend.md"}
"""Pages that take seconds: they run the laws."""

NOT_CODE = {"html", "json", "jsonl", "mermaid", "promql", "text", "toml", "yaml", "{toctree}"}
BLOCK = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[int, str, str, str | None]]:
    """Each block of code: its line, kind and code, and what it is said to print."""
    text = Path(ROOT, page).read_text("utf-8")
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
        pytest.param(page, marks=pytest.mark.thorough if page in SLOW else ())
        for page in sorted(PAGES - RUN_BY.keys())
    ],
)
def test_the_blocks_of_a_page_print_what_it_says(page: str, tmp_path: Path) -> None:
    blocks = [block for block in _blocks(page) if not _installs(block[1], block[2])]
    assert {kind for _, kind, _, _ in blocks} <= {"python", "sh"}
    if not blocks:
        return
    make_model_folder(tmp_path / "path" / "to" / "model")
    printed = printed_by_blocks([block[:3] for block in blocks], tmp_path)
    said = {f"{page}:{line}": text for line, _, _, text in blocks if text is not None}
    assert {
        f"{page}:{line}": out
        for (line, _, _, text), out in zip(blocks, printed, strict=True)
        if text is not None
    } == said


def test_pages_that_are_run_elsewhere_are_run_there() -> None:
    for page, test in RUN_BY.items():
        assert _blocks(page)
        assert Path(page).stem.removeprefix("wrap-") in Path(ROOT, test).read_text("utf-8")


def test_what_pages_install_there_is() -> None:
    project = tomllib.loads(Path(ROOT, "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"].keys()
    asked = {
        extra
        for page in [*PAGES, "README.md"]
        for names in re.findall(r"(?:streamdec|['\" ]\.)\[([a-z,]+)\]", Page(page).text)
        for extra in names.split(",")
    }
    assert len(asked) > 5
    assert asked <= extras


LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def test_an_index_has_every_page_of_its_room() -> None:
    for index in DOCS.glob("*/index.md"):
        linked = {*LINK.findall(index.read_text("utf-8"))}
        pages = {str(path.relative_to(index.parent)) for path in index.parent.rglob("*.md")}
        if index.parent.name == "reference":  # these have an index of their own
            pages = {page for page in pages if not page.startswith("api/")} | {"api/index.md"}
        assert linked >= pages - {"index.md"}, index
