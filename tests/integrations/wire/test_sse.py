"""Events as the standard's own rules read them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamdec.integrations import sse

NO_SURROGATES = st.characters(exclude_categories=["Cs"])
texts = st.text(st.one_of(st.sampled_from("\r\n: \x85\u2028\ufeffa"), NO_SURROGATES))
one_line = st.text(NO_SURROGATES, min_size=1).filter(lambda text: not set(text) & set("\r\n\0"))


def read(stream: bytes) -> list[tuple[str, str]]:
    """Name and data of each event: the standard's section "interpreting a stream"."""
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    found, name, data = [], "", ""
    for line in text.split("\n"):
        if not line:
            if data:
                found.append((name or "message", data.removesuffix("\n")))
            name = data = ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
    return found


@given(st.lists(st.tuples(texts, st.none() | one_line), max_size=4))
@example([("a\rb\nc\r\nd", None)])
def test_events_are_read_as_they_were_meant(events: list[tuple[str, str | None]]) -> None:
    stream, wanted = b"", []
    for data, name in events:
        stream += b": keep-alive\n\n" + sse.event(data, name=name)
        lines = data.replace("\r\n", "\n").replace("\r", "\n")
        wanted.append((name or "message", lines))
    assert read(stream) == wanted


@pytest.mark.parametrize("name", ["a\nb", "", "a\0"])
def test_a_name_that_readers_ignore_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="name must be one line"):
        sse.event("data", name=name)
