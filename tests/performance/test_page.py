from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks.book import Book, table
from tests.benchmarks.goals import GOALS, SUBJECTS, Goal
from tests.benchmarks.page import GOALS_PAGE, PAGE, REPORT, TABLES, files, lacks, main
from tests.benchmarks.picture import PICTURES
from tests.benchmarks.picture import main as draw_all
from tests.support.pages import ROOT, Page

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def book() -> Book:
    return Book.read(REPORT)


def figure(what: str, value: float, subject: str = "deepseek-v3", **more: Any) -> dict[str, Any]:
    return {"subject": subject, "case": "c", "what": what, "value": value, "unit": "x", **more}


def test_the_commands_of_the_page_there_are() -> None:
    commands = [line.split() for line in Page("docs/explanation/performance.md").commands]
    assert len(commands) == 2
    for python, m, module, *arguments in commands:
        assert (python, m) == ("python", "-m")
        told = subprocess.run(
            [sys.executable, m, module, "--help"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        assert all(it in told.stdout for it in arguments if it.startswith("--"))


def small(*figures: dict[str, Any]) -> Book:
    return Book({"environment": {}, "figures": [*figures], "notes": [], "failures": []})


# --- the documentation ----------------------------------------------------------------------------


def test_the_documentation_is_what_the_report_says(book: Book) -> None:
    """`python -m tests.benchmarks.page` writes it, with all figures."""
    written = files(book, PAGE.read_text("utf-8"), GOALS_PAGE.read_text("utf-8"))
    assert {path.name for path in written} == {PAGE.name, GOALS_PAGE.name, REPORT.name, *PICTURES}
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path.name


@pytest.mark.parametrize("name", TABLES)
def test_a_figure_edited_by_hand_is_found(name: str, book: Book) -> None:
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(f"<!-- {name} -->\n")
    digit = re.compile(r"\d").search(page, start)
    assert digit
    assert digit.start() < page.index("<!-- end -->", start)
    other = str((int(digit.group()) + 1) % 10)
    typed = page[: digit.start()] + other + page[digit.end() :]
    assert files(book, typed, GOALS_PAGE.read_text("utf-8"))[PAGE] == page != typed


def test_the_report_is_of_a_whole_run_without_a_wrong_text(book: Book) -> None:
    assert [*lacks(book)] == []
    assert {figure["subject"] for figure in book.data["figures"]} == SUBJECTS.keys()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"quick": True}, "it is of a quick run"),
        ({"failures": ["gpt2, step: at character 3 'a', not 'b'"]}, "it has a wrong text: gpt2, "),
        ({"environment": {"sglang": "1", "mlx-lm": "1", "transformers": "5"}}, "part .*: vllm$"),
        ({"figures": []}, r"\d\d figures are missing, such as \('deepseek-v3', "),
        ({"figures": None}, r"no report of the benchmark \(TypeError: "),
    ],
)
def test_a_report_that_lacks_something_leaves_the_documentation_alone(
    changed: dict[str, Any],
    reason: str,
    book: Book,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**book.data, **changed}), "utf-8")
    monkeypatch.setattr(Path, "write_text", pytest.fail)
    assert main([str(path)]) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith(f"{path}: not for the documentation: ")
    assert re.search(reason, said)


def test_a_file_that_is_not_a_report_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torn.json").write_text("{", "utf-8")
    for name in ("torn.json", "absent.json"):
        assert main([str(tmp_path / name)]) == 1
        assert "no report of the benchmark (" in capsys.readouterr().err


def test_a_missed_goal_is_marked(book: Book) -> None:
    verdicts = [goal.row(book)[-1] for goal in GOALS]
    assert all(
        re.fullmatch(r"reached|\*\*missed\*\* by (\d+%|less than 1%)", verdict)
        for verdict in verdicts
    )


# --- a goal ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "cells", "verdict"),
    [
        ((0.5, 1.0), "0.500 / 1.00", "reached"),
        ((0.5, 1.25), "0.500 / 1.25", "**missed** by 25%"),
        ((), "–", "not measured"),
    ],
)
def test_the_worst_figure_decides(values: tuple[float, ...], cells: str, verdict: str) -> None:
    figures = [figure(str(place), value) for place, value in enumerate(values)]
    goal = Goal("g", 1, "×", [("c", "0"), ("c", "1")])
    assert goal.row(small(*figures)) == ["g", "1 ×", cells, "–", verdict]


@pytest.mark.parametrize(
    ("python", "bound"),
    [("CPython 3.11.7", "2 ×"), ("CPython 3.13.0", "1.5 ×"), ("CPython 4.0.0", "1.5 ×")],
)
def test_a_goal_may_depend_on_the_version_of_python(python: str, bound: str) -> None:
    book = Book({"environment": {"python": python}, "figures": []})
    assert Goal("g", 2, "×", [("c", "w")], bound_313=1.5).row(book)[1] == bound


def test_figures_of_tokenizers_it_is_not_about_do_not_count() -> None:
    figures = [figure("w", 0.5), figure("w", 9.0, "mistral-7b-v0.1")]
    goal = Goal("g", 1, "B", [("c", "w")], ("deepseek-v3",))
    assert goal.row(small(*figures)) == ["g", "1 B", "0.500", "–", "reached"]


# --- a report -------------------------------------------------------------------------------------


def test_a_table_is_markdown() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | --: |\n| x | 1 |\n"


def test_a_report_is_kept_short_and_says_the_same() -> None:
    whole = [
        figure("w", 0.0, goal=None, remark="", at_least=False, missed_by=0.0),
        figure("v, 12 tokens", 1.23456789, remark="said", at_least=True),
    ]
    again = Book.read_text(small(*whole).compact())
    assert again.get("deepseek-v3", "c", "w") == figure("w", 0.0)
    found = again.starting("deepseek-v3", "c", "v")
    assert found == figure("v, 12 tokens", 1.23457, remark="said", at_least=True)
    assert again.compact() == small(*whole).compact()


def test_a_page_without_a_place_for_a_table_is_an_error(book: Book) -> None:
    page = PAGE.read_text("utf-8")
    with pytest.raises(ValueError, match="one <!-- entry -->"):
        files(book, page.replace("<!-- entry -->", ""), GOALS_PAGE.read_text("utf-8"))
    with pytest.raises(ValueError, match="one <!-- goals -->"):
        files(book, page, page)


# --- pictures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_text_alternative(name: str, book: Book) -> None:
    root = ET.fromstring(PICTURES[name](book))
    title, description, style = (root.findtext(f"{SVG}{tag}") for tag in ("title", "desc", "style"))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title description"
    assert title
    assert description
    assert style
    assert "prefers-color-scheme: dark" in style
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    for who in ("streamdec", "tokenizers DecodeStream", "vLLM Fast", "mlx-lm BPE"):
        assert who in description
        assert [text for text in texts if text.startswith(who)]
    assert [text for text in texts if book.data["environment"]["date"] in text]


@pytest.mark.parametrize("name", PICTURES)
def test_all_parts_of_a_picture_are_inside(name: str, book: Book) -> None:
    root = ET.fromstring(PICTURES[name](book))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for element in root.iter():
        for key, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            assert 0 <= float(element.get(key, 0)) <= most
    texts = [
        element for element in root.iter(f"{SVG}text") if "end" not in element.get("class", "")
    ]
    # Six to seven of its units a letter, in any of the fonts that it asks for.
    assert all(float(t.get("x", 0)) + 6.2 * len(t.text or "") < width for t in texts)


def test_a_report_without_the_needed_figures_draws_nothing(
    tmp_path: Path, book: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    kept = [each for each in book.data["figures"] if not each["case"].startswith("peers")]
    path.write_text(json.dumps({**book.data, "figures": kept}), "utf-8")
    assert draw_all([str(path), str(tmp_path / "pictures")]) == 1
    assert "no times of deepseek-v3 from a run with --peers" in capsys.readouterr().err
    assert not (tmp_path / "pictures").exists()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_leaves_out_decoders_without_figures(name: str, book: Book) -> None:
    kept = [each for each in book.data["figures"] if not each["what"].startswith("vLLM")]
    picture = PICTURES[name](Book({**book.data, "figures": kept}))
    texts = [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]
    assert [text for text in texts if text.startswith("mlx-lm BPE")]
    assert not [text for text in texts if text.startswith("vLLM")]


def test_both_commands_write_files(
    tmp_path: Path, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert draw_all([str(REPORT), str(tmp_path / "pictures")]) == 0
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == PICTURES.keys()
    assert draw_all([]) == 2
    pages = PAGE.read_text("utf-8"), GOALS_PAGE.read_text("utf-8")
    written = {path: path.read_text("utf-8") for path in files(book, *pages)}
    monkeypatch.setattr(Path, "write_text", lambda path, text, **_: written.pop(path) == text)
    assert main([]) == 0
    assert written == {}
