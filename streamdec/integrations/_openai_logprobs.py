"""Log probabilities in the formats of OpenAI's two APIs.

In: the tokens of a chunk, with their offsets. Out: the ``logprobs`` of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamdec.integrations._json import Json
from streamdec.integrations.logprobs import Alternative, PlacedLogprob


def chat_logprobs(logprobs: Sequence[PlacedLogprob]) -> Json:
    """Return the ``logprobs`` of a chat: a list of tokens, with bytes as numbers."""
    return {
        "content": [
            {**_token(each), "top_logprobs": [_token(other) for other in each.top or ()]}
            for each in logprobs
        ],
        "refusal": None,
    }


def _token(each: PlacedLogprob | Alternative) -> Json:
    return {"token": each.token, "logprob": each.logprob, "bytes": list(each.data)}


def completion_logprobs(logprobs: Sequence[PlacedLogprob]) -> Json:
    """Return the ``logprobs`` of a completion: parallel lists."""
    return {
        "tokens": [_spelled(each) for each in logprobs],
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [_top(each) for each in logprobs],
        "text_offset": [each.text_offset for each in logprobs],
    }


def _top(placed: PlacedLogprob) -> dict[str, float] | None:
    """Return the likeliest tokens and, as in OpenAI's API, the one that was chosen."""
    if placed.top is None:
        return None
    top: dict[str, float] = {}
    for each in (*placed.top, Alternative(placed.token, placed.data, placed.logprob)):
        token = _spelled(each)
        top[token] = max(each.logprob, top.get(token, each.logprob))
    return top


def _spelled(each: PlacedLogprob | Alternative) -> str:
    r"""Return the name of a token in completions: ``bytes:\xf0\x9f`` if not UTF-8."""
    try:
        each.data.decode()
    except UnicodeDecodeError:
        return f"bytes:{each.token}"
    return each.token
