"""The texts to encode: prompts of three lengths, and texts that are used window by window."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.benchmarks import texts

__all__ = ["PROMPTS", "TEXTS", "Reel"]

PROMPTS: Mapping[str, str] = {
    "short": "What is the capital of France?",
    "medium": (
        "Please explain how a quantum computer works: what qubits, superposition and entanglement "
        "are, what problems it solves faster than others, and why it is so hard to build one that "
        "makes almost no errors."
    ),
    "long": (
        "You review code for a team of software engineers. Read the service below, which keeps "
        "sessions in a cache that several regions share, and say what you would change and why. "
        "Look at these points in turn: 1) what happens to requests in flight when a node fails, "
        "2) whether two writers can lose each other's updates, 3) which calls block the event "
        "loop, and for how long, 4) how entries are evicted when memory runs short, 5) what is "
        "measured, and which alarm would have told us of last week's outage. For each finding "
        "name the lines, how serious it is, and a better version of the code, with a test that "
        "fails before the change. Be concise."
    ),
}
"""A question of 30 characters, a task of 201, a review of 638."""

POOL = 4_000_000
SEED = 31

TEXTS: Mapping[str, Callable[[], str]] = {
    "code": lambda: texts.code(POOL),
    "prose": texts.prose,
    "words": lambda: texts.words(POOL // 4, SEED),
}


class Reel:
    """Windows of one text, none of which is used twice until the text ends.

    Then the windows begin at another place, so that no window occurs twice.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._begin = 0

    def window(self, size: int) -> str:
        """Return the next ``size`` characters. A shorter text is repeated."""
        if self._place + size > len(self._text):
            self._begin += 97
            self._place = self._begin % max(len(self._text) // 2, 1)
        start, self._place = self._place, self._place + size
        window = self._text[start : self._place]
        while len(window) < size:
            window += self._text[: size - len(window)]
        return window
