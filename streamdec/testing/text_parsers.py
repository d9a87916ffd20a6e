r"""Checks whether the result of a streaming parser depends on the cuts of a text.

Parsers of tool calls and of reasoning read the text of a model in pieces, as it arrives. The pieces
depend on the tokenizer, the load and the settings of the engine, so the result must not depend on
them. In: a callable that makes parsers, and texts. Out: a :class:`Report` with a result for each
text; a failure shows each different result with the smallest cut that leads to it.

    from streamdec.testing import check_text_parser
    check_text_parser(make_parser, texts).raise_for_failures()
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from math import comb
from typing import Any, Protocol, TypeAlias

from streamdec.testing.conformance_report import Report, Result
from streamdec.testing.detokenizers import ConformanceError, call_guarded

Fields: TypeAlias = Mapping[str, str]
Text: TypeAlias = str | Sequence[str]
MOST_SHOWN = 4
"""The most different results that a failure shows."""


class TextParser(Protocol):
    """A parser of one stream of text.

    Both methods return the new text of each field as a dict, or None if there is no new text. The
    checks join the texts of a field. You choose the names of the fields. A field whose name ends in
    ``arguments`` is compared as JSON if it is valid JSON.

    >>> from streamdec.testing import TextParser, check_text_parser
    >>> class Plain(TextParser):
    ...     def step(self, text):
    ...         return {"content": text}
    ...     def flush(self):
    ...         return None
    >>> check_text_parser(Plain, ["Hi!"]).summary
    '1 passed, 0 failed, 0 skipped'
    """

    def step(self, text: str, /) -> Fields | None:
        """Take ``text``, the next piece, and return what is new."""
        ...

    def flush(self) -> Fields | None:
        """End the text, and return what was withheld."""
        ...


def check_text_parser(
    make_parser: Callable[[], TextParser],
    texts: Iterable[Text] | Mapping[str, Text],
    *,
    parse_whole: Callable[[str], Fields] | None = None,
    max_examples: int = 200,
    seed: int = 0,
) -> Report:
    r"""Check that a parser gives the same result wherever its text is cut.

    Each text is parsed whole, with each single cut, with pairs of cuts, in groups of equal size,
    and with random cuts. Each time a new parser reads it.

    Args:
        make_parser: makes a new parser for each stream. If it or the parser raises
            NotImplementedError, the text is skipped; any other exception is a failure.
        texts: the texts that a model could write, or a dict with a name for each. A ``str`` is cut
            between any two code points. A list of strings is cut between its items only: use it for
            text with special tokens, which no engine cuts.
        parse_whole: a function that takes the whole text and returns a dict of its fields, such as
            the engine's parser for requests without streaming. If given, all results must equal its
            result.
        max_examples: the most pairs of cuts to try, and also the most sets of random cuts.
        seed: the seed of the random cuts and pairs.

    Returns:
        A result for each text. As text it has, for each different result of the parser, the
        smallest cut that was found for it.

    Raises:
        TypeError: ``make_parser`` is not callable, ``texts`` is a single string, or a text is
            neither a string nor a list of strings.
        ValueError: ``texts`` or one of them is empty, or ``max_examples`` is below 1.

    >>> from streamdec.testing import check_text_parser
    >>> class Answer:  # hides the marker, unless it is cut
    ...     def step(self, text):
    ...         return {"content": text.replace("</think>", "")}
    ...     def flush(self):
    ...         return None
    >>> print(check_text_parser(Answer, ["Hi</think>!"]))
    FAILED text 0
        The result depends on where the text is cut.
        cut into  'Hi</think>!'
        given     {'content': 'Hi!'}
                  from 7 of 170 ways to cut the text
        cut into  'Hi<', '/think>!'
        given     {'content': 'Hi</think>!'}
                  from 163 of 170 ways to cut the text
    0 passed, 1 failed, 0 skipped
    """
    if not callable(make_parser):
        raise TypeError(f"make_parser must be callable, got {make_parser!r:.80}")
    if max_examples < 1:
        raise ValueError(f"max_examples must be at least 1, got {max_examples}")
    named = texts.items() if isinstance(texts, Mapping) else _numbered(texts)
    pieces = {name: _pieces_of(name, text) for name, text in named}
    if not pieces:
        raise ValueError("texts is empty: expected at least one text")
    results = []
    for name, each in pieces.items():
        outcomes = partial(outcomes_of, make_parser, each, max_examples, f"{seed} {name}")
        again = partial(_parsed, make_parser, each, ())
        results.append(_result(name, parse_whole, outcomes, again, "".join(each)))
    return Report(tuple(results))


def _numbered(texts: Iterable[Text]) -> Iterator[tuple[str, Text]]:
    if isinstance(texts, str):
        raise TypeError("texts must be a list of texts, got one text: write [text]")
    yield from ((f"text {place}", text) for place, text in enumerate(texts))


def _pieces_of(name: str, text: Any) -> list[str]:
    """Return the parts of a text that are never cut."""
    pieces = [*text] if isinstance(text, Iterable) else [text]
    if not all(isinstance(piece, str) for piece in pieces):
        raise TypeError(f"{name} must be a string or a list of strings, got {text!r:.80}")
    if "" in pieces or not pieces:
        raise ValueError(f"{name} is empty or has an empty piece: {text!r:.80}")
    return pieces


Cuts: TypeAlias = tuple[int, ...]


@dataclass
class Outcome:
    """One of the different results of a parser."""

    fields: Fields
    error: str
    """The exception of the parser; empty without one."""
    groups: list[str]
    """The fewest parts of the text that were found to give this result."""
    count: int = 0
    """The number of tested cuts that gave this result."""


def _result(
    name: str,
    parse_whole: Callable[[str], Fields] | None,
    outcomes: Callable[[], list[Outcome]],
    again: Callable[[], Outcome],
    text: str,
) -> Result:
    """Return the result for one text; ``again`` parses it in one piece once more."""
    try:
        expected = None if parse_whole is None else _whole(parse_whole, text)
        found = outcomes()
        then = again() if len(found) > 1 else found[0]
    except NotImplementedError as error:
        return Result(name, "skipped", f"the parser lacks: {error!s:.200}")
    except ConformanceError as error:
        return Result(name, "failed", f"parse_whole: {error}")
    if expected is not None:
        wrong = [each for each in found if _key(each) != _key(expected)]
        lines = ["A cut gives another result than the whole text."]
        lines.append(f"expected  {expected.fields}")
    else:
        wrong = found if len(found) > 1 or found[0].error else []
        depends = "The result depends on where the text is cut."
        lines = [depends if len(wrong) > 1 else "The parser raises an exception."]
    if not wrong:
        return Result(name, "passed")
    first = found[0]
    if _key(first) != _key(then):
        lines = ["The same text in one piece gives another result the second time."]
        lines.append("make_parser must return a new parser that shares no state with earlier ones.")
        lines.append(f"first     {first.error or first.fields}")
        lines.append(f"then      {then.error or then.fields}")
        return Result(name, "failed", "\n".join(lines))
    num_ways = sum(each.count for each in found)
    for each in wrong[:MOST_SHOWN]:
        lines.append(f"cut into  {', '.join(map(repr, each.groups))}")
        lines.append(each.error or f"given     {each.fields}")
        lines.append(f"          from {each.count} of {num_ways} ways to cut the text")
    if len(wrong) > MOST_SHOWN:
        lines.append(f"and {len(wrong) - MOST_SHOWN} more results")
    return Result(name, "failed", "\n".join(lines))


def _whole(parse_whole: Callable[[str], Fields], text: str) -> Outcome:
    """Return the result of ``parse_whole``."""
    fields: dict[str, str] = {}
    call_guarded(_add, fields, call_guarded(parse_whole, text), "parse_whole()")
    return Outcome(fields, "", [text])


def outcomes_of(
    make_parser: Callable[[], TextParser],
    pieces: Sequence[str],
    max_examples: int = 200,
    seed: str = "0",
) -> list[Outcome]:
    """Return the different results of parsing ``pieces``.

    The result of the fewest cuts comes first.
    """
    outcomes: dict[str, tuple[Outcome, Cuts]] = {}
    for cuts in _ways(len(pieces), max_examples, seed):
        found = _parsed(make_parser, pieces, cuts)
        each, _ = outcomes.setdefault(_key(found), (found, cuts))
        each.count += 1
    for key, (each, cuts) in outcomes.items():
        each.groups = _groups(pieces, _smallest(make_parser, pieces, cuts, key))
    return [each for each, _ in outcomes.values()]


def _smallest(
    make_parser: Callable[[], TextParser], pieces: Sequence[str], cuts: Cuts, key: str
) -> Cuts:
    """Remove cuts, many at once and then one by one, while the result stays the same."""
    size = max(len(cuts) // 2, 1)
    while True:
        place, before = 0, len(cuts)
        while place < len(cuts):
            fewer = cuts[:place] + cuts[place + size :]
            if _key(_parsed(make_parser, pieces, fewer)) == key:
                cuts = fewer
            else:
                place += size
        if size == 1 and len(cuts) == before:
            return cuts
        size = max(size // 2, 1)


def _groups(pieces: Sequence[str], cuts: Cuts) -> list[str]:
    bounds = (0, *cuts, len(pieces))
    return ["".join(pieces[i:j]) for i, j in pairwise(bounds)]


def _parsed(make_parser: Callable[[], TextParser], pieces: Sequence[str], cuts: Cuts) -> Outcome:
    """Parse the text in pieces."""
    groups = _groups(pieces, cuts)
    try:
        return Outcome(call_guarded(_joined, make_parser, groups), "", groups)
    except ConformanceError as error:
        return Outcome({}, str(error), groups)


def _joined(make_parser: Callable[[], TextParser], texts: list[str]) -> dict[str, str]:
    """Return what a new parser gives for ``texts``."""
    parser = make_parser()
    fields: dict[str, str] = {}
    for text in texts:
        _add(fields, parser.step(text), "step()")
    _add(fields, parser.flush(), "flush()")
    return fields


def _add(fields: dict[str, str], new: Any, verb: str) -> None:
    """Append the new text of each field."""
    if new is None:
        return
    if not isinstance(new, Mapping) or not all(
        isinstance(each, str) for pair in new.items() for each in pair
    ):
        raise TypeError(f"{verb} must return a dict of texts, or None; got {new!r:.200}")
    for name, text in new.items():
        if text:
            fields[name] = fields.get(name, "") + text


def _key(outcome: Outcome) -> str:
    """Return a text that is the same for equal results."""
    fields = {name: _as_json(name, text) for name, text in outcome.fields.items()}
    return json.dumps([fields, outcome.error], sort_keys=True)


def _as_json(name: str, text: str) -> Any:
    if not name.endswith("arguments"):
        return text
    try:
        return [json.loads(text)]
    except ValueError:
        return text


def _ways(size: int, max_examples: int, seed: str) -> Iterator[Cuts]:
    """Return places to cut ``size`` pieces at: few cuts first, each set of cuts once."""
    chance = random.Random(seed)
    places = range(1, size)
    seen: set[Cuts] = set()
    for cuts in _all_ways(places, max_examples, chance):
        if cuts not in seen:
            seen.add(cuts)
            yield cuts


def _all_ways(places: range, max_examples: int, chance: random.Random) -> Iterator[Cuts]:
    yield ()
    yield from ((place,) for place in places)
    if comb(len(places), 2) <= max_examples:
        yield from combinations(places, 2)
    else:
        for _ in range(max_examples):
            yield tuple(sorted(chance.sample(places, 2)))
    for width in (1, 2, 3, 4, 8):
        yield tuple(places[width - 1 :: width])
    for _ in range(max_examples):
        yield tuple(sorted(chance.sample(places, chance.randint(0, len(places)))))
