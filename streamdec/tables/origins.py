"""The *origins* of code points: the indices of the tokens that began them."""

from __future__ import annotations

from contextlib import suppress
from os.path import commonprefix
from typing import Any

from streamdec.errors import RewriteError
from streamdec.tables.table import Table


def origins_of_step(table: Table, row: Any, token_id: int, index: int, *, ends: bool) -> list[int]:
    """Return the origins of the text that a token decides.

    Args:
        table: of the stream.
        row: of the stream before the token.
        token_id: the id of the token.
        index: how many tokens the stream had before.
        ends: whether the token ends the stream, so that it also decides what is still held.
    """
    state = table.state(row)
    chunk, _, _, after = table.transition_or_unknown(row, token_id)
    text = chunk.text
    origins = [index - age for age in table.firsts(state, token_id, text)]
    if not table.has_spans:  # only what came before the token by itself is not its own
        with suppress(RewriteError):
            size = len(commonprefix([table.flush(state), text]))  # noqa: RUF071 (letters)
            origins[size:] = [index] * (len(text) - size)
    if ends:
        with suppress(RewriteError):  # then a stop ended the stream, without this text
            held = table.idle if after is None else after.state
            origins += origins_of_end(table, held, index + 1)
    return origins


def origins_of_end(table: Table, state: Any, tokens: int, *, goes_on: bool = False) -> list[int]:
    """Return the origins of the text that a flush in ``state`` gives.

    With ``goes_on``, return those of the text that a release gives. ``tokens``: how many tokens the
    stream had.
    """
    text = table.release(state)[0] if goes_on else table.flush(state)
    return [tokens - age for age in table.released(state, text, goes_on=goes_on)]
