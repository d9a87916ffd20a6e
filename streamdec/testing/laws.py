"""The laws of ``docs/explanation/laws.md`` that can be tested on any detokenizer.

A law takes a trial (a detokenizer, a subject, drawn data), and raises a
:class:`~streamdec.testing.detokenizers.ConformanceError` that shows an example that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st

from streamdec.testing import strategies
from streamdec.testing.detokenizers import ConformanceError, Request
from streamdec.testing.expectations import Certain, cut_at_stop, waiting_for
from streamdec.testing.subjects import REPLACEMENT
from streamdec.testing.trials import Trial, quoted, text_ids


class UnjudgedError(Exception):
    """The reason why a law cannot be tested with this tokenizer."""


@dataclass(frozen=True)
class Law:
    """A promise about every stream, and a function that tests one example of it.

    >>> from streamdec.testing import LAWS
    >>> next(law.promise for law in LAWS if law.name == "stop_never_leaks")
    'the output contains no part of a stop and no text after it'
    """

    name: str
    """The name in reports and in ``only``."""
    promise: str
    """The guarantee, in one sentence."""
    holds: Callable[[Trial], None]
    """Test one example. Raises ConformanceError with the example if it breaks the law."""
    strict: bool = False
    """Whether it only runs by name or with ``strict``: it is about latency, or our convention."""


def _singly(ids: Sequence[int]) -> list[list[int]]:
    return [[token_id] for token_id in ids]


# --- text -----------------------------------------------------------------------------------------


def _whole_decode(trial: Trial) -> None:
    skip = trial.skip()
    times = trial.data.draw(st.sampled_from([*[1] * 7, 64]))  # some streams are long
    ids = trial.ids(skip=skip) * times + trial.word()
    if trial.data.draw(st.booleans()):
        trial.beside = trial.word()
    trial.expect(Request(skip_special_tokens=skip), _singly(ids), trial.whole(ids, skip=skip))


def _end_of_stream(trial: Trial) -> None:
    skip = trial.skip()
    ids = trial.ids(skip=skip)
    if trial.subject.byte_ids.keys() >= set("é😀".encode()):
        begun = trial.data.draw(st.sampled_from(["é", "😀"])).encode()
        size = trial.data.draw(st.integers(0, len(begun) - 1))
        ids += [trial.subject.byte_ids[byte] for byte in begun[:size]]
    assume(len({*trial.certain(ids, skip=skip)}) == 1)  # libraries differ in runs of bytes
    trial.expect(Request(skip_special_tokens=skip), _singly(ids), trial.whole(ids, skip=skip))


def _certain_text(trial: Trial) -> None:
    skip = trial.skip()
    ids = trial.ids(skip=skip, max_size=10)
    request = Request(skip_special_tokens=skip)
    given = trial.drive(request, _singly(ids)).given
    for count, text in enumerate(given, 1):
        certain = trial.certain(ids[:count], skip=skip).at_most
        if not certain.startswith(text):
            wrong = f"certain   {quoted(certain)}", f"given     {quoted(text)}, before its end"
            raise ConformanceError(trial.message(request, _singly(ids[:count]), *wrong))


def _least_hold(trial: Trial) -> None:
    skip = trial.skip()
    ids = trial.ids(skip=skip, max_size=10)
    _expect_at_least(trial, Request(skip_special_tokens=skip), ids)


def _expect_at_least(trial: Trial, request: Request, ids: Sequence[int]) -> None:
    """Check that each call returns all text that is certain and cannot become a stop."""
    if not trial.subject.is_foreseeable:
        raise UnjudgedError("the certain text cannot be computed for this tokenizer")
    for count, text in enumerate(trial.drive(request, _singly(ids)).given, 1):
        certain = trial.certain(ids[:count], skip=request.skip_special_tokens).at_least
        cut = cut_at_stop(certain, request.stop)
        waits = waiting_for(certain, request.stop)
        least = certain[: cut.start] if cut else certain[: len(certain) - waits]
        if len(text) < len(least):
            wrong = f"certain   {quoted(least)}", f"given     {quoted(text)}"
            raise ConformanceError(trial.message(request, _singly(ids[:count]), *wrong))


def _prompt(trial: Trial) -> None:
    skip = trial.skip()
    prompt, rest = trial.parted(skip=skip)
    certain = trial.certain(prompt, skip=skip) if prompt else Certain("", "")
    assume(certain.at_least == certain.at_most)
    whole = trial.whole(prompt + rest, skip=skip)
    assume(whole.startswith(certain.at_most))
    request = Request(tuple(prompt), skip_special_tokens=skip)
    trial.expect(request, _singly(rest), whole[len(certain.at_most) :])


def _special_tokens(trial: Trial) -> None:
    _expect_interspersed(trial, trial.subject.skipped, "special tokens")


def _unknown_ids(trial: Trial) -> None:
    _expect_interspersed(trial, trial.subject.unknown, "ids without a token")


def _expect_interspersed(trial: Trial, others: Sequence[int], what: str) -> None:
    """Check the text of ids with ``others`` among them."""
    if not others:
        raise UnjudgedError(f"the tokenizer has no {what}")
    skip = trial.skip()
    ids = trial.ids(skip=skip)
    bytes_of = set(trial.subject.byte_ids.values()) if trial.subject.has_byte_fallback else set()
    places = [
        place
        for place in range(len(ids) + 1)
        if not (bytes_of.issuperset(ids[max(place - 1, 0) : place + 1]) and ids)
    ]
    assume(places)
    ids = trial.data.draw(strategies.interspersed(ids, others, places)) + trial.word()
    trial.expect(Request(skip_special_tokens=skip), _singly(ids), trial.whole(ids, skip=skip))


def _chunk_invariance(trial: Trial) -> None:
    skip = trial.skip()
    ids = trial.ids(skip=skip)
    _expect_invariance(trial, Request(skip_special_tokens=skip), ids)


def _expect_invariance(trial: Trial, request: Request, ids: Sequence[int]) -> None:
    """Check that grouping ids into calls changes no text, after a call or at the end."""
    groups = trial.data.draw(strategies.divided(ids))
    singly, grouped = trial.drive(request, _singly(ids)), trial.drive(request, groups)
    fed = 0
    for count, text in enumerate(grouped.given, 1):
        fed += len(groups[count - 1])
        alone = singly.given[min(fed, len(singly.given)) - 1]
        if text != alone:
            wrong = f"one by one {quoted(alone)}", f"in groups  {quoted(text)}"
            raise ConformanceError(trial.message(request, groups[:count], *wrong))
    if (grouped.text, grouped.stop_reason) != (singly.text, singly.stop_reason):
        wrong = (
            f"one by one {quoted(singly.text)}, stop_reason {singly.stop_reason!r}",
            f"in groups  {quoted(grouped.text)}, stop_reason {grouped.stop_reason!r}",
        )
        raise ConformanceError(trial.message(request, groups, *wrong))


# --- stops ----------------------------------------------------------------------------------------


def _text_for_stops(trial: Trial) -> tuple[bool, list[int], str]:
    """Draw whether special tokens are skipped, and ids. Return both and the text."""
    skip = trial.skip()
    if trial.data.draw(st.sampled_from([True, True, False])):
        ids = trial.data.draw(text_ids(trial.subject, skip, 16))
    else:
        ids = trial.ids(skip=skip, max_size=16)
    ids = ids * trial.data.draw(st.sampled_from([1, 1, 4])) + trial.word()
    text = trial.whole(ids, skip=skip)
    assume(text)
    return skip, ids, text


def _stop_never_leaks(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    stop = trial.data.draw(strategies.stops(text, missing=False))
    request = Request(skip_special_tokens=skip, stop=(stop,))
    expected = text[: text.index(stop)]
    found = trial.drive(request, _singly(ids))
    for count, given in enumerate([*found.given, found.text], 1):
        if not expected.startswith(given):
            wrong = f"expected  {quoted(expected)} at most", f"given     {quoted(given)}"
            raise ConformanceError(trial.message(request, _singly(ids[:count]), *wrong))
    trial.expect_stop(request, _singly(ids), found, stop)


def _stop_never_swallows(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    stop = _draw_stop(trial, text)
    request = Request(skip_special_tokens=skip, stop=(stop,))
    cut = cut_at_stop(text, [stop])
    expected = text[: cut.start] if cut else text
    found = trial.drive(request, _singly(ids))
    if not found.text.startswith(expected):
        if found.rest is None and expected.startswith(found.text):
            raise NotImplementedError("flush")
        wrong = f"expected  {quoted(expected)} at least", f"given     {quoted(found.text)}"
        raise ConformanceError(trial.message(request, _singly(ids), *wrong))
    trial.expect_stop(request, _singly(ids), found, stop if cut else None)


def _stop_not_from_prompt(trial: Trial) -> None:
    skip = trial.skip()
    prompt, rest = trial.parted(skip=skip)
    assume(prompt)
    before, whole = trial.whole(prompt, skip=skip), trial.whole(prompt + rest, skip=skip)
    # Another law tests prompts that end, or seem to end, inside a character.
    assume(before and whole.startswith(before) and not before.endswith(REPLACEMENT))
    assume(trial.certain(prompt, skip=skip) == (before, before))
    text = whole[len(before) :]
    assume(text)
    begun = trial.data.draw(st.integers(1, min(len(before), 4)))
    rest_of_stop = trial.data.draw(st.integers(1, min(len(text), 4)))
    stop = before[-begun:] + text[:rest_of_stop]
    assume(not (text[0] == " " and text.startswith(stop)))  # the prompt may have given the space
    request = Request(tuple(prompt), skip_special_tokens=skip, stop=(stop,))
    _expect_cut(trial, request, rest, text)


def _draw_stop(trial: Trial, text: str) -> str:
    """Draw a stop that is in the text, nearly in it, or begins at its end."""
    kind = trial.data.draw(st.sampled_from(["part", "part", "near", "begun"]))
    if kind == "begun":
        begun = trial.data.draw(st.integers(1, min(len(text), 4)))
        return text[-begun:] + trial.data.draw(st.sampled_from(["\n", text]))
    return trial.data.draw(strategies.stops(text, missing=kind == "near"))


def _draw_stops(trial: Trial, text: str) -> tuple[str, ...]:
    """Draw several stops, of which one is often a suffix of another."""
    found = trial.data.draw(st.lists(strategies.stops(text), min_size=2, max_size=4))
    if trial.data.draw(st.booleans()):
        found.insert(trial.data.draw(st.integers(0, 1)), found[0][len(found[0]) // 2 :])
    return tuple(dict.fromkeys(found))


def _first_stop_wins(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    stops = _draw_stops(trial, text)
    assume(not _is_tie(text, stops))
    _expect_cut(trial, Request(skip_special_tokens=skip, stop=stops), ids, text)


def _longest_stop_wins(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    longest = trial.data.draw(strategies.stops(text, missing=False))
    size = trial.data.draw(st.integers(1, len(longest)))
    stops = trial.data.draw(st.permutations([longest, longest[-size:]]))
    assume(_is_tie(text, stops))
    _expect_cut(trial, Request(skip_special_tokens=skip, stop=tuple(stops)), ids, text)


def _is_tie(text: str, stops: Sequence[str]) -> bool:
    """Whether the code point that completes the first stop completes another one."""
    cut = cut_at_stop(text, stops)
    return cut is not None and any(
        stop != cut.stop and text[: cut.end].endswith(stop) for stop in stops
    )


def _expect_cut(trial: Trial, request: Request, ids: Sequence[int], text: str) -> None:
    """Check that the text ends at the right place, in one call or in many."""
    groups = [ids] if trial.data.draw(st.booleans()) else _singly(ids)
    cut = cut_at_stop(text, request.stop)
    end = len(text)
    if cut:
        end = cut.end if request.include_stop_str_in_output else cut.start
    trial.expect(request, groups, text[:end], cut.stop if cut else None)


def _visible_stop(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    stop = _draw_stop(trial, text)
    request = Request(skip_special_tokens=skip, stop=(stop,), include_stop_str_in_output=True)
    _expect_cut(trial, request, ids, text)


def _stop_chunk_invariance(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    request = Request(skip_special_tokens=skip, stop=_draw_stops(trial, text))
    _expect_invariance(trial, request, ids)


def _stop_least_hold(trial: Trial) -> None:
    skip, ids, text = _text_for_stops(trial)
    request = Request(skip_special_tokens=skip, stop=_draw_stops(trial, text)[:2])
    _expect_at_least(trial, request, ids)


LAWS: tuple[Law, ...] = (
    Law("whole_decode", "the text equals the tokenizer's own decode of all ids", _whole_decode),
    Law("certain_text", "no later token changes text that was output", _certain_text),
    Law("end_of_stream", "the end outputs all withheld text", _end_of_stream),
    Law("prompt", "the stream continues the prompt without repeating it", _prompt),
    Law("special_tokens", "special tokens are skipped or output as in the decode", _special_tokens),
    Law("unknown_ids", "an id without a token neither adds nor removes text", _unknown_ids),
    Law("chunk_invariance", "the grouping of ids does not change the text", _chunk_invariance),
    Law(
        "stop_never_leaks",
        "the output contains no part of a stop and no text after it",
        _stop_never_leaks,
    ),
    Law(
        "stop_never_swallows",
        "text that only began like a stop is output, and all text before it",
        _stop_never_swallows,
    ),
    Law("stop_not_from_prompt", "a stop does not begin in the prompt", _stop_not_from_prompt),
    Law("first_stop_wins", "the stop that is complete first ends the text", _first_stop_wins),
    Law("visible_stop", "a visible stop is output, and no text after it", _visible_stop),
    Law(
        "stop_chunk_invariance",
        "the grouping of ids does not change the text or the stop",
        _stop_chunk_invariance,
    ),
    Law("least_hold", "certain text is output at once", _least_hold, strict=True),
    Law(
        "stop_least_hold",
        "only text that may still become a stop is withheld",
        _stop_least_hold,
        strict=True,
    ),
    Law(
        "longest_stop_wins",
        "our convention: the longest of several stops that are complete at once ends the text",
        _longest_stop_wins,
        strict=True,
    ),
)
"""All laws, in the order in which they are tested."""
