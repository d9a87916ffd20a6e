"""The markers that close and open a turn, found in a conversation that a template renders."""

from __future__ import annotations

import pytest

from streamdec.preflight.turns import (
    ANSWER,
    FIRST,
    QUESTION,
    Marker,
    Probes,
    Turns,
    find_turns,
    probe,
)
from tests.preflight.making import CHATML

MARKERS = {"<|im": 5, "<|im_start|>": 1, "<|im_end|>": 2, "</s>": 3, "<|user|>": 4, "": 6}
OLD_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if not (loop.last and m.role == 'assistant') %}<|im_end|>\n{% endif %}{% endfor %}"
)
MISTRAL = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
GLM = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
NO_MARKERS = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("template", "terminator", "primer"),
    [
        (CHATML, "<|im_end|>", "<|im_start|>"),
        (OLD_CHATML, "<|im_end|>", "<|im_start|>"),
        (MISTRAL, "</s>", None),
        (GLM, None, "<|user|>"),
        (NO_MARKERS, None, None),
        ("{{ raise_exception('no') }}", None, None),
    ],
)
def test_markers_are_found_by_rendering(
    template: str, terminator: str | None, primer: str | None
) -> None:
    turns = find_turns(probe(template, {}), MARKERS)
    assert (turns.terminator and turns.terminator.text) == terminator
    assert (turns.primer and turns.primer.text) == primer
    assert turns.terminator is None or turns.terminator.id == MARKERS[turns.terminator.text]


def test_the_longest_of_two_markers_that_begin_alike_is_meant() -> None:
    text = f"{FIRST}<|im_start|>{ANSWER}<|im_end|>"
    turns = find_turns(Probes(rendered={"answered": text}), MARKERS)
    assert turns.terminator is not None
    assert turns.terminator.text == "<|im_end|>"


def test_a_marker_after_other_text_does_not_close_the_answer() -> None:
    rendered = {
        "answered": f"{ANSWER} and so on <|im_end|>",
        "followed": f"{ANSWER} and <|user|> {QUESTION}",
    }
    turns = find_turns(Probes(rendered=rendered), MARKERS)
    assert turns.terminator is None
    assert turns.primer is not None
    assert turns.primer.text == "<|user|>"


def test_a_tokenizer_without_markers_has_no_turns() -> None:
    rendered = {"answered": ANSWER, "followed": f"{ANSWER}{QUESTION}"}
    assert find_turns(Probes(rendered=rendered), {}).terminator is None


def test_markers_are_looked_for_near_the_turns() -> None:
    """However much a template writes between them."""
    flood = "z" * 4_000_000
    rendered = {
        "answered": f"qzanswerzq<e>{flood}",
        "followed": f"qzanswerzq<e>{flood}<u>qzquestionzq",
    }
    markers = {"<e>": 1, "<u>": 2} | {f"<{i}>": 10 + i for i in range(20_000)}
    found = find_turns(Probes(rendered=rendered), markers)
    assert found == Turns(Marker("<e>", 1), Marker("<u>", 2))
