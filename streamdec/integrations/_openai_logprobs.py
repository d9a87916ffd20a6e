"""Log probabilities as OpenAI's two APIs have them.

In: the tokens of a chunk, placed. Out: the ``logprobs`` of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamdec.integrations._json import Json
from streamdec.integrations.logprobs import Alternative, PlacedLogprob

__all__ = ["chat_logprobs", "completion_logprobs"]


def chat_logprobs(logprobs: Sequence[PlacedLogprob]) -> Json:
    """Of a chat: a list of tokens, with their bytes as numbers."""
    return {
        "content": [
            {**_token(each), "top_logprobs": [_token(other) for other in each.top or ()]}
            for each in logprobs
        ],
        "refusal": None,
    }


def _token(each: PlacedLogprob | Alternative) -> Json:
    data = None if each.data is None else list(each.data)
    return {"token": each.token, "logprob": each.logprob, "bytes": data}


def completion_logprobs(logprobs: Sequence[PlacedLogprob], shift: int) -> Json:
    """Of a completion: parallel lists. ``shift`` is added to each place."""
    return {
        "tokens": [_spelled(each) for each in logprobs],
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [_top(each) for each in logprobs],
        "text_offset": [each.text_offset + shift for each in logprobs],
    }


def _top(placed: PlacedLogprob) -> dict[str, float] | None:
    """The likeliest tokens and, as OpenAI has it, the one that was chosen."""
    if placed.top is None or placed.logprob is None:
        return None
    chosen = Alternative(placed.token, placed.data, placed.logprob)
    top: dict[str, float] = {}
    for each in (*placed.top, chosen):
        token = _spelled(each)
        top[token] = max(each.logprob, top.get(token, each.logprob))
    return top


def _spelled(each: PlacedLogprob | Alternative) -> str:
    r"""A token as completions name it: ``bytes:\xf0\x9f`` if its bytes are no text."""
    try:
        (each.data or b"").decode()
    except UnicodeDecodeError:
        return f"bytes:{each.token}"
    return each.token
