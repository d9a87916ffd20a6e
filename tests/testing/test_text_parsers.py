"""The check of streaming parsers: which parsers fail it, and what it shows of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from streamdec.testing import TextParser, check_text_parser

CALL = "Hi <call>f(1)</call>"


class Whole:
    """Parses when the text has ended. Its result cannot depend on cuts."""

    def __init__(self) -> None:
        self.text = ""

    def step(self, text: str) -> Mapping[str, str] | None:
        self.text += text
        return None

    def flush(self) -> Mapping[str, str] | None:
        return parsed(self.text)


def parsed(text: str) -> dict[str, str]:
    found = re.search(r"<call>(\w+)(.*)</call>", text)
    if found is None:
        return {"content": text}
    return {"content": text[: found.start()], "name": found[1], "arguments": found[2]}


class Streaming(Whole):
    """Outputs the content at once, and withholds only what may be a marker."""

    def step(self, text: str) -> Mapping[str, str] | None:
        self.text += text
        at = self.text.find("<")
        end = len(self.text) if at < 0 else at
        content, self.text = self.text[:end], self.text[end:]
        return {"content": content}


class ByPiece(Whole):
    """Looks for the marker in one piece of the text."""

    def step(self, text: str) -> Mapping[str, str] | None:
        if "<call>" in text:
            self.text = text
        elif self.text:
            self.text += text
        else:
            return {"content": text}
        return None


class AtTheNextPiece(Whole):
    """Parses what it has when the next piece comes, so that a call in one piece is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.has_parsed = False

    def step(self, text: str) -> Mapping[str, str] | None:
        self.has_parsed = bool(self.text)
        return super().step(text)

    def flush(self) -> Mapping[str, str] | None:
        return super().flush() if self.has_parsed else None


class Needs(Whole):
    """Loses the middle of the text, if the marker arrives in three pieces or more."""

    def __init__(self) -> None:
        super().__init__()
        self.num_cut = 0

    def step(self, text: str) -> Mapping[str, str] | None:
        self.num_cut += 0 < len(text) < 4 and text in "<call>"
        return super().step(text)

    def flush(self) -> Mapping[str, str] | None:
        return {} if self.num_cut >= 3 else super().flush()


def detail(make: Callable[[], TextParser], text: Any = CALL, **options: Any) -> str:
    (result,) = check_text_parser(make, [text], **options)
    assert result.outcome == "failed"
    return result.detail


@pytest.mark.parametrize("make", [Whole, Streaming])
def test_a_parser_that_does_not_depend_on_cuts_passes(make: Callable[[], TextParser]) -> None:
    report = check_text_parser(make, [CALL, "Hi", "a"], parse_whole=parsed)
    assert report.summary == "3 passed, 0 failed, 0 skipped"


def test_each_result_is_shown_with_its_smallest_cut() -> None:
    found = detail(ByPiece)
    assert f"cut into  {CALL!r}\ngiven     {parsed(CALL)}" in found
    assert "cut into  'H', 'i <call>f(1)</call>'" not in found  # the same result as whole
    assert "cut into  'Hi <', 'call>f(1)</call>'\ngiven     {'content': '" in found
    assert found.count("cut into") == 2


def test_a_cut_that_is_needed_twice_is_found_and_made_small() -> None:
    found = detail(Needs, max_examples=400)
    (cut,) = re.findall(r"cut into  (.*)\ngiven     \{\}", found)
    pieces = re.findall(r"'(.*?)'", cut)
    assert "".join(pieces) == CALL
    assert 3 <= len(pieces) <= 5


def test_a_text_that_is_lost_in_one_piece_is_shown() -> None:
    found = detail(AtTheNextPiece)
    assert f"cut into  {CALL!r}\ngiven     {{}}" in found


def test_the_parser_of_whole_texts_decides_which_result_is_wrong() -> None:
    found = detail(ByPiece, parse_whole=parsed)
    assert f"expected  {parsed(CALL)}" in found
    assert found.count("cut into") == 1
    # A parser that is wrong for every cut is wrong, too.
    assert "expected" in detail(ByPiece, "Hi", parse_whole=lambda _: {"content": "Ho"})


def test_arguments_are_compared_as_json() -> None:
    class Spaced(Whole):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name, self.num_steps = name, 0

        def step(self, text: str) -> Mapping[str, str] | None:
            self.num_steps += 1
            return None

        def flush(self) -> Mapping[str, str] | None:
            return {self.name: '{"a":  1}' if self.num_steps == 1 else '{"a": 1}'}

    assert check_text_parser(lambda: Spaced("calls[0].arguments"), ["ab"]).passed
    assert check_text_parser(lambda: Spaced("content"), ["ab"]).failed


def test_an_exception_is_a_failure_with_its_cut() -> None:
    class Fragile(Whole):
        def step(self, text: str) -> Mapping[str, str] | None:
            if text == "i":
                raise IndexError("no more")
            return super().step(text)

    found = detail(Fragile, "Hi")
    assert "cut into  'H', 'i'\nraised IndexError: no more" in found


@pytest.mark.parametrize("given", ["text", {"content": None}, {1: "a"}, ["content"], 5])
def test_a_parser_that_returns_no_texts_fails(given: Any) -> None:
    class Wrong(Whole):
        def flush(self) -> Any:
            return given

    assert "flush() must return a dict of texts, or None; got" in detail(Wrong)


def test_a_reused_parser_is_distinguished_from_one_that_depends_on_cuts() -> None:
    shared = Whole()
    (result,) = check_text_parser(lambda: shared, ["Hi!"]).results
    assert result.outcome == "failed"
    *told, first, then = result.detail.splitlines()
    assert told == [
        "The same text in one piece gives another result the second time.",
        "make_parser must return a new parser that shares no state with earlier ones.",
    ]
    assert first == "first     {'content': 'Hi!'}"
    assert then.startswith("then      {'content': 'Hi!Hi!")


def test_checks_of_missing_methods_are_skipped() -> None:
    def lacking() -> TextParser:
        raise NotImplementedError("streaming")

    (result,) = check_text_parser(lacking, ["Hi"])
    assert (result.outcome, result.detail) == ("skipped", "the parser lacks: streaming")


def test_equal_seeds_try_equal_cuts() -> None:
    def tried(seed: int) -> list[tuple[str, ...]]:
        ways: list[tuple[str, ...]] = []

        class Recording(Whole):
            def __init__(self) -> None:
                super().__init__()
                self.pieces: list[str] = []

            def step(self, text: str) -> Mapping[str, str] | None:
                self.pieces.append(text)
                return None

            def flush(self) -> Mapping[str, str] | None:
                ways.append(tuple(self.pieces))
                return None

        check_text_parser(Recording, ["abcdefghijklmnop" * 3], seed=seed)
        return ways

    first = tried(1)
    assert first == tried(1)
    assert first != tried(2)
    assert len(set(first)) == len(first)  # no cut is tried twice
    assert {"".join(pieces) for pieces in first} == {"abcdefghijklmnop" * 3}
    assert {len(pieces) for pieces in first} >= {1, 2, 3, 48}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, ["a"]), "make_parser must be callable, got 3"),
        ((Whole, "text"), r"got one text: write \[text\]"),
        ((Whole, [["a", 1]]), "text 0 must be a string or a list of strings"),
        ((Whole, ["a", 3]), "text 1 must be a string or a list of strings, got 3"),
    ],
)
def test_objects_that_are_not_parsers_or_texts_are_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_text_parser(*arguments)


@pytest.mark.parametrize("texts", [[], {}, [""], [[]], [["a", ""]]])
def test_empty_texts_are_rejected(texts: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        check_text_parser(Whole, texts)


def test_at_least_one_example_is_tried() -> None:
    with pytest.raises(ValueError, match="max_examples must be at least 1, got 0"):
        check_text_parser(Whole, ["a"], max_examples=0)
