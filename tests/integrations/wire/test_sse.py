"""Events as the standard's own rules read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.integrations import sse

NO_SURROGATES = st.characters(exclude_categories=["Cs"])
texts = st.text(st.one_of(st.sampled_from("\r\n: \x85\u2028\ufeffa"), NO_SURROGATES))
one_line = st.text(NO_SURROGATES, min_size=1).filter(lambda text: not set(text) & set("\r\n\0"))


def read(stream: bytes) -> list[tuple[str, str, str]]:
    """Name, data and last id of each event: the standard's section "interpreting a stream"."""
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    found, name, data, last_id = [], "", "", ""
    for line in text.split("\n"):
        if not line:
            if data:
                found.append((name or "message", data.removesuffix("\n"), last_id))
            name = data = ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id = value
    return found


@given(st.lists(st.tuples(texts, st.none() | one_line, st.none() | one_line), max_size=4))
def test_events_are_read_as_they_were_meant(
    events: list[tuple[str, str | None, str | None]],
) -> None:
    stream, wanted, last_id = b"", [], ""
    for data, name, event_id in events:
        stream += sse.comment(data) + sse.event(data, name=name, event_id=event_id)
        last_id = event_id or last_id
        lines = data.replace("\r\n", "\n").replace("\r", "\n")
        wanted.append((name or "message", lines, last_id))
    assert read(stream) == wanted


def test_an_event_with_all_of_its_fields() -> None:
    found = sse.event(b"a", name="delta", event_id="7", retry=0)
    assert found == b"event: delta\nid: 7\nretry: 0\ndata: a\n\n"


@pytest.mark.parametrize(
    "fields", [{"name": "a\nb"}, {"name": ""}, {"event_id": "a\0"}, {"retry": -1}, {"retry": True}]
)
def test_what_is_no_field_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        sse.event("data", **fields)  # type: ignore[arg-type]
