"""Runs of byte tokens: eager and exact, alone and with Metaspace behind them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from streamdec import HuggingFaceTokenizer, StopSequenceDecoder
from streamdec.core.decode_options import ByteFallbackMode
from streamdec.core.rules.byte_fallback import fallback_byte, fallback_bytes
from streamdec.protocols import ByteFallback, DecodingRule, Metaspace
from tests.core.rule_tables import Table, through_json
from tests.support.zoo import ZOO

BAD = "\ufffd".encode()

# --- what is a byte piece -------------------------------------------------------------------------


PIECES = ["", "a", "<0x4>", "<0x041>", "x0x41>", "<0X41>", "<0x41)", "<0x\u0663>", "<0x\xe9>"]
PIECES += [f"<0x{a}{b}>" for a in "0+-_ fFgé" for b in "0+-_ fFgé"]


def test_the_library_agrees_which_pieces_are_bytes() -> None:
    for piece in PIECES:
        byte = fallback_byte(piece)
        expected = Table(ByteFallback(), piece).whole()
        assert expected == (piece if byte is None else bytes([byte]).decode("utf-8", "replace"))
        assert fallback_bytes(piece) == (piece.encode() if byte is None else bytes([byte]))


# --- exact runs -----------------------------------------------------------------------------------


def pieces_of(*parts: bytes | str) -> list[str]:
    """Each byte as a byte piece, and texts unchanged."""
    pieces: list[str] = []
    for part in parts:
        pieces += [part] if isinstance(part, str) else [f"<0x{byte:02X}>" for byte in part]
    return pieces


YOU = "你".encode()
EXACT: list[tuple[list[str], list[bytes]]] = [
    (pieces_of(YOU, "a"), [b"", b"", b"", YOU + b"a", b""]),
    (pieces_of(YOU), [b"", b"", b"", YOU]),
    (pieces_of("😀".encode(), "a"), [b"", b"", b"", b"", "😀a".encode(), b""]),
    (pieces_of(YOU, b"A", "a"), [b"", b"", b"", b"", YOU + b"Aa", b""]),
    (pieces_of(YOU, b"\xff", b"A", "a"), [b"", b"", b"", BAD * 4, BAD, b"a", b""]),
    (pieces_of(b"\xff", "a", YOU, "b"), [BAD, b"a", b"", b"", b"", YOU + b"b", b""]),
    (pieces_of(b"\xe4", "a"), [b"", BAD + b"a", b""]),
    (pieces_of(b"\xe4\xbd", "a"), [b"", b"", BAD * 2 + b"a", b""]),
    (pieces_of(YOU, b"\xe4\xbd"), [b"", b"", b"", b"", b"", BAD * 5]),
    (pieces_of(b"\xe4", "", b"\xbd"), [b"", BAD, BAD, b""]),
    (pieces_of("\ufffd".encode(), "a"), [b"", b"", b"", BAD + b"a", b""]),
    (pieces_of(b"\xed", b"\xa0"), [b"", BAD * 2, b""]),
]


@pytest.mark.parametrize(("pieces", "outputs"), EXACT)
def test_a_run_is_withheld_until_it_closes_or_breaks(
    pieces: list[str], outputs: list[bytes]
) -> None:
    Table(ByteFallback(), *pieces).check(*outputs)


def test_a_skipped_special_leaves_a_run_open() -> None:
    pieces = pieces_of(b"\xe4", "<s>", b"\xbd\xa0")
    Table(ByteFallback(), *pieces, special=["<s>"]).check(b"", b"", b"", b"", YOU)


def test_a_replaced_unknown_id_closes_a_run() -> None:
    table = Table(ByteFallback(), *pieces_of(b"\xe4"))
    machine = table.machine
    _, state = table.step(machine.start, 0)
    assert machine.advance(state, machine.replacement) == (BAD * 2, None)


# --- runs, then Metaspace -------------------------------------------------------------------------

MARK = "\u2581".encode()
SPACED: list[tuple[list[str], list[bytes]]] = [
    (["▁a", "▁b"], [b"a", b" b", b""]),
    (pieces_of(MARK, "▁b"), [b"", b"", b"", b" b", b""]),
    (pieces_of("a", MARK, "b"), [b"a", b"", b"", b"", b" b", b""]),
    (pieces_of(MARK, MARK), [b"", b"", b"", b"", b"", b"", b""]),
    (pieces_of("", MARK), [b"", b"", b"", b"", b" "]),
    (pieces_of(b"\xff", MARK, "a"), [BAD, *[BAD] * 3, b"a", b""]),
]


@pytest.mark.parametrize(("pieces", "outputs"), SPACED)
def test_each_run_goes_through_metaspace_as_one_piece(
    pieces: list[str], outputs: list[bytes]
) -> None:
    Table(ByteFallback(Metaspace()), *pieces).check(*outputs)


@pytest.mark.parametrize(
    "rule", [ByteFallback(Metaspace()), ByteFallback(Metaspace(prepend=False))]
)
@given(data=st.data())
def test_eager_spaced_runs_give_the_same_text_where_every_run_is_valid(
    rule: DecodingRule, data: st.DataObject
) -> None:
    parts: st.SearchStrategy[bytes | str] = st.sampled_from([MARK, YOU, b"A", "▁a", "b", ""])
    pieces = pieces_of(*data.draw(st.lists(parts, max_size=8)))
    table = Table(rule, *pieces, byte_fallback="eager")
    assert b"".join(table.outputs()).decode() == table.whole()
    for _, state in table.steps():
        assert through_json(table.machine, state) == state


@pytest.mark.parametrize(
    ("byte_fallback", "parts"), [("exact", ("b", b".", "a")), ("eager", ("b", MARK))]
)
def test_a_stop_in_a_run_begins_in_the_first_token_of_the_run(
    byte_fallback: ByteFallbackMode, parts: tuple[bytes | str, ...]
) -> None:
    names = pieces_of(*parts)
    tokenizer = Table(ByteFallback(Metaspace()), *names).tokenizer
    decoder = StopSequenceDecoder(tokenizer, stop=[".", " "], byte_fallback=byte_fallback)
    assert decoder.feed(range(len(names))).finish_reason == "stop"
    assert decoder.match is not None
    assert decoder.match.tokens_before == 1


def test_a_visible_stop_id_may_be_a_part_of_a_stripped_character() -> None:
    """No earlier token waits for the byte that the strip held."""
    library = json.loads(ZOO["byte_fallback_strip"]().to_str())
    for step in library["decoder"]["decoders"]:
        if step["type"] == "Strip":
            step.update(content="é", start=2)
    tokenizer = HuggingFaceTokenizer(Tokenizer.from_str(json.dumps(library)))
    first = tokenizer.token_to_id("<0xC3>")
    assert first is not None
    decoder = StopSequenceDecoder(tokenizer, stop_token_ids=first, include_stop_str_in_output=True)
    assert decoder.step(first).text == tokenizer.decode([first]) == "\ufffd"
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.end, decoder.match.tokens_before) == (0, 1, 0)
