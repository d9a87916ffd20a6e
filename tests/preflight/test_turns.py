"""The markers that close and open a turn, found in a conversation that a template renders."""

from __future__ import annotations

import pytest

from streamdec.preflight.turns import ANSWER, FIRST, QUESTION, Probes, find_turns, probe
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


FLOOD = "z" * 4_000_000


@pytest.mark.parametrize(
    ("source", "terminator", "primer"),
    [
        (CHATML, "<|im_end|>", "<|im_start|>"),
        (OLD_CHATML, "<|im_end|>", "<|im_start|>"),
        (MISTRAL, "</s>", None),
        (GLM, None, "<|user|>"),
        (NO_MARKERS, None, None),
        ("{{ raise_exception('no') }}", None, None),
        # Texts: the longest of two markers that begin alike, a marker after other text, and as
        # much text between the markers as a template may write.
        ({"answered": f"{FIRST}<|im_start|>{ANSWER}<|im_end|>"}, "<|im_end|>", None),
        (
            {
                "answered": f"{ANSWER} and so on <|im_end|>",
                "followed": f"{ANSWER} and <|user|> {QUESTION}",
            },
            None,
            "<|user|>",
        ),
        (
            {
                "answered": f"{ANSWER}</s>{FLOOD}",
                "followed": f"{ANSWER}</s>{FLOOD}<|user|>{QUESTION}",
            },
            "</s>",
            "<|user|>",
        ),
    ],
)
def test_the_markers_of_turns_are_found(
    source: str | dict[str, str], terminator: str | None, primer: str | None
) -> None:
    probes = probe(source, {}) if isinstance(source, str) else Probes(rendered=source)
    turns = find_turns(probes, MARKERS | {f"<{i}>": 10 + i for i in range(20_000)})
    assert (turns.terminator and turns.terminator.text) == terminator
    assert (turns.primer and turns.primer.text) == primer
    assert turns.terminator is None or turns.terminator.id == MARKERS[turns.terminator.text]
    assert find_turns(probes, {}) == (None, None)
