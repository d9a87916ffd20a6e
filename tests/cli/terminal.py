"""The screen of a terminal after some output: only the parts that a live row needs."""

from __future__ import annotations

import re

__all__ = ["everything_shown", "rows_of"]

PIECE = re.compile(r"\x1b\[(?P<number>[0-9;?]*)(?P<letter>[A-Za-z])|(?P<text>[^\x1b\r\n]+|\r|\n)")


def everything_shown(written: str) -> str:
    """All that was ever on the screen, drawn again or not, without colours and movements."""
    return "".join(piece["text"] or "" for piece in PIECE.finditer(written))


def rows_of(written: str) -> list[str]:
    """The rows that stand on an endlessly wide and high screen in the end, without the last."""
    rows, row, column = [""], 0, 0
    for piece in PIECE.finditer(written):
        match piece["text"], piece["letter"], piece["number"]:
            case "\r", _, _:
                column = 0
            case "\n", _, _:
                row += 1
                rows += [""] * (row + 1 - len(rows))
            case None, "A", number:
                row -= int(number)
            case None, "K", "2":
                rows[row] = ""
            case None, "m" | "h" | "l", _:
                pass  # colours, the cursor
            case str(text), _, _:
                line = rows[row].ljust(column)
                rows[row] = line[:column] + text + line[column + len(text) :]
                column += len(text)
            case _:
                raise AssertionError(f"a terminal may do more: {piece[0]!r}")
    return [line.rstrip() for line in rows[:row]]
