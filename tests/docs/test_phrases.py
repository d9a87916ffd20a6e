"""The pages are in plain English: phrases that have to be read twice do not come back.

When a reviewer marks a sentence, add its phrase to the list, with what to write instead.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Page

PAGES = sorted(
    {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    - {str(path.relative_to(ROOT)) for path in (ROOT / "docs/reference/api").glob("*.md")}
)

TOP = sorted(path.name for path in ROOT.glob("*.md"))
"""README, CONTRIBUTING and the others beside it."""

READMES = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("plugins/*/README.md"), ROOT / "fuzz/README.md"]
)

PHRASES = {
    # aphorisms and inversions
    r"\bfor ever\b": "until ..., without a limit",
    r"\bdear\b": "expensive, allocates",
    r"at last\b": "at the end",
    r"whatever": "any",
    r"whoever": "name who",
    r"what there is": "name it",
    r"what is none": "name it",
    r"that of those": "repeat the noun",
    r"is none of": "is not one of",
    r"are none\b": "do not exist",
    r"is nothing\b": "does not matter",
    r"is not to be had": "is not available",
    r"all the same\b": "still",
    r"by itself alone": "alone",
    r"so many an? ": "as many as",
    r"as good as": "almost",
    # personification
    r"is told": "gets, registers",
    r"\bto be woken\b": "to alert on",
    r"has its turn": "runs",
    r"closes the door": "stops accepting requests",
    r"\bis believed\b": "is used",
    r"\bknows nothing\b": "does not handle",
    r"has no doubts?": "is exact",
    r"\bthe price of\b": "name the cost",
    r"\bare refused\b|\bis refused\b": "raises ..., is an error",
    r"\bgives away\b": "shows",
    r"\bgives? out\b|\bgiven out\b": "outputs, is output",
    r"\bcomes? of it\b": "name the result",
    r"has (?:ended|begun) anew|\banew\b": "again",
    r"\bmended\b": "fixed",
    r"\btried on\b": "tested with",
    r"\b(?:goes?|went|gone) on\b(?! after)": "continues",
    r"\bput to\b": "rendered with",
    r"\bstrangers\b": "untrusted input",
    # the field's terms
    r"\bwhole decode\b": "full decode",
    r"\bthe judge\b": "the oracle",
    r"\bthe house\b|\bfloors?\b": "package, layer",
    r"\bletter of (?:it|the stop|a stop)\b": "part of the stop",
    r"within a character": "inside a character",
    r"half (?:a|the) character(?!:)": "incomplete character",
    r"around an engine": "with an engine",
    r"until it is said|unless it is said|if it is not said": "by default",
    r"\bnobody\b(?! finishes)": "name who",
    r"\bof ours\b|\bof yours\b": "your, our",
    r"\bsees to it\b": "makes sure",
    r"\bas it were\b": "",
    r"\bhearsay\b|\bperhaps\b": "sometimes, may",
    # missing nouns, and words in an unusual place
    r"\bas far as\b": "only the part that ..., if",
    r"\bof (?:its|their) own\b(?! [a-z])|\b(?:task|process) of (?:its|their) own\b": "its own ...",
    r"(?<!there )\b(?:is|are) no (?!longer|disadvantage)[a-z]": "is not a",
    r"\bwhat comes\b|\bcomes? out\b|\bbrings? out\b": "name it; is output",
    r"\bnothing of\b": "no part of, not",
    r"\bsays? otherwise\b": "overrides",
    r"\bso many\b": "name the number",
    r"\bin their order\b": "in order",
    r"\bmakes? of (?:it|the|an?|each|small|`)\b": "makes from, returns for",
    r"\brefuses\b|\bhas refused\b": "rejects",
    r"\bwhom\b": "name who",
    r"\blikewise\b": "the same for ...",
    r"\bgraver?\b|\bgravest\b": "severe",
    r"\bfor good\b": "permanently",
    r"\bthis very\b": "this",
    r"\b(?:is|are|was|were) said\b": "is reported, is shown",
    r"\btold of\b|\b(?:is|are) told\b": "gets",
}
"""What not to write, and what to write instead."""

EVERYWHERE = {
    r"\bdear\b", r"at last\b", r"what is none", r"that of those", r"is not to be had",
    r"by itself alone", r"so many an? ", r"as good as", r"\bto be woken\b", r"has its turn",
    r"closes the door", r"\bknows nothing\b", r"has no doubts?", r"\bthe price of\b",
    r"\bmended\b", r"\bput to\b", r"\bthe judge\b", r"\bthe house\b|\bfloors?\b",
    r"until it is said|unless it is said|if it is not said", r"\bsees to it\b", r"\bas it were\b",
    r"\bgives away\b", r"\bletter of (?:it|the stop|a stop)\b", r"\bis believed\b",
    r"\bcomes? of it\b", r"around an engine", r"\btried on\b", r"\bstrangers\b",
    r"half (?:a|the) character(?!:)", r"whoever", r"what there is", r"\bfor ever\b", r"is none of",
    r"within a character", r"has (?:ended|begun) anew|\banew\b", r"\bhearsay\b|\bperhaps\b",
    r"\bof ours\b|\bof yours\b", r"\bwhole decode\b", r"\bgives? out\b|\bgiven out\b",
    r"is told", r"is nothing\b", r"whatever", r"\bnobody\b(?! finishes)", r"all the same\b",
    r"\b(?:goes?|went|gone) on\b(?! after)", r"\bare refused\b|\bis refused\b",
    r"\bas far as\b", r"\bnothing of\b", r"\bsays? otherwise\b", r"\bso many\b",
    r"\bof (?:its|their) own\b(?! [a-z])|\b(?:task|process) of (?:its|their) own\b",
    r"(?<!there )\b(?:is|are) no (?!longer|disadvantage)[a-z]", r"\bin their order\b",
    r"\bwhat comes\b|\bcomes? out\b|\bbrings? out\b", r"\brefuses\b|\bhas refused\b",
    r"\bmakes? of (?:it|the|an?|each|small|`)\b", r"\bwhom\b", r"\blikewise\b",
    r"\bgraver?\b|\bgravest\b", r"\bfor good\b", r"\bthis very\b",
    r"\b(?:is|are|was|were) said\b", r"\btold of\b|\b(?:is|are) told\b",
}  # fmt: skip
"""Phrases that the docstrings, comments and messages of the source do not have either.

The source still has the others. Add a phrase here when its last use is removed.
"""

FOLDERS = ("streamdec", "plugins", "fuzz", "scripts", "tests")
SOURCES = sorted(
    {*(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")), ROOT / "noxfile.py"}
    - {Path(__file__).resolve()}
)
"""All Python files, except this one."""


def prose(text: str) -> str:
    """The text of a page without its code, its comments and the addresses of its links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "`", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"[ \t]*\n(?!\n)[ \t]*", " ", text)


def found_in(text: str, phrases: set[str]) -> list[str]:
    """Each phrase with the words around it, and what to write instead."""
    return [
        f"...{text[max(0, match.start() - 30) : match.end() + 30]}... ({PHRASES[phrase]})"
        for phrase in sorted(phrases)
        for match in re.finditer(phrase, text, re.IGNORECASE)
    ]


def test_no_page_has_any_of_these_phrases() -> None:
    found = {}
    for page in [*PAGES, *TOP, *READMES]:
        phrases = {*PHRASES} - ({r"\blaws?\b"} if page.startswith("fuzz/") else set())
        found[page] = found_in(prose(Page(page).text), phrases)
    assert {page: phrases for page, phrases in found.items() if phrases} == {}


def words_of(source: bytes) -> str:
    """Return the strings and comments of Python source, without the values in f-strings."""
    # Since 3.12 an f-string is not a STRING, and its text is in tokens of another type.
    kinds = ("STRING", "COMMENT", "FSTRING_MIDDLE")
    tokens = tokenize.tokenize(BytesIO(source).readline)
    found = [token.string for token in tokens if tokenize.tok_name[token.type] in kinds]
    return "\n".join(words.lstrip("# ") for words in found)


@pytest.mark.thorough
def test_the_source_has_none_of_these_phrases() -> None:
    found = {
        str(path.relative_to(ROOT)): found_in(prose(words_of(path.read_bytes())), EVERYWHERE)
        for path in SOURCES
    }
    assert {path: phrases for path, phrases in found.items() if phrases} == {}


NAMES = {
    r"^what\b(?! comes)": "name it",
    r"^who\b": "name who",
    r"\bthat (?:is|are) none\b": "bad, malformed, unknown",
    r"\bwithin a character\b": "inside a character",
}
"""What the name of a test must not have besides, and what to write instead."""


def names_of_tests(source: str) -> Iterator[str]:
    """Return the names of test functions, as words."""
    for name in re.findall(r"^\s*(?:async )?def test_(\w+)", source, re.MULTILINE):
        yield name.replace("_", " ")


def test_names_of_tests_have_none_of_these_phrases() -> None:
    phrases = {*EVERYWHERE, *NAMES}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.name.startswith("test_")
        for name in names_of_tests(path.read_text("utf-8"))
        if any(re.search(phrase, name) for phrase in phrases)
    ]
    assert found == []


def test_rules_of_preflight_have_none_of_these_phrases() -> None:
    text = Path(ROOT, "streamdec/preflight/rules.toml").read_text("utf-8")
    assert found_in(prose(text), EVERYWHERE) == []


@pytest.mark.parametrize(
    "path",
    ["cli/data/demo_text.txt", "server/data/index.html", "trace/data/page.html"],
)
def test_texts_that_the_commands_show_have_none_of_these_phrases(path: str) -> None:
    assert found_in(prose(Path(ROOT, "streamdec", path).read_text("utf-8")), {*PHRASES}) == []


def test_words_of_source() -> None:
    source = b'"""A docstring."""\nx = f"a {1 + 1} message"  # a comment\n'
    assert re.findall(r"docstring|message|comment", words_of(source)) == [
        "docstring",
        "message",
        "comment",
    ]


def test_a_phrase_is_found() -> None:
    """Over the end of a line, but not in code."""
    assert found_in(prose("It waits for\never."), {r"\bfor ever\b"}) == [
        "...It waits for ever.... (until ..., without a limit)"
    ]
    assert found_in(prose("It `waits for ever`.\n\n```python\nfor ever\n```\n"), {*PHRASES}) == []


def test_all_pages_are_read() -> None:
    assert len(PAGES) > 30
    assert len(TOP) >= 4
    assert len(READMES) == 3
    assert len(SOURCES) > 700


LIMIT = 25


def test_sentences_are_short() -> None:
    found = {page: long_sentences_of(page) for page in [*PAGES, *TOP]}
    assert {page: long for page, long in found.items() if long} == {}


def long_sentences_of(page: str) -> list[tuple[int, str]]:
    """Of 25 words, in paragraphs and items. Rows of tables and lists of names may be longer."""
    text = re.sub(r"^(?:\||#).*$", "", Page(page).text, flags=re.MULTILINE)
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    blocks = re.split(r"\n\n|\n(?=\s*(?:-|\d+\.) )", text)
    long = []
    for block in blocks:
        for sentence in re.split(r"(?<=[.?!:;])[)*]*\s+", prose(block)):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) >= LIMIT and sentence.count("`") < 6:
                long.append((len(words), sentence))
    return long
