"""The law: the server serves the text of StopSequenceDecoder, for any ids."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamdec import StopConditions, StopSequenceDecoder
from tests.server.conftest import Served

STOPS = ["\nUser:", " the", "e", "。", "\ufffd", "🦉", "ing\n"]
EXAMPLES = 40


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_the_text_is_that_of_the_decoder(running: Served, data: st.DataObject) -> None:
    engine, tokenizer = running.engine, running.tokenizer
    engine.reset()
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), min_size=1, max_size=40))
    engine.is_plain, engine.size = data.draw(st.booleans()), data.draw(st.integers(1, 5))
    conditions: dict[str, Any] = {
        "stop": data.draw(st.lists(st.sampled_from(STOPS), max_size=4)),
        "include_stop_str_in_output": data.draw(st.booleans()),
        "min_tokens": data.draw(st.integers(0, 3)),
        "max_tokens": data.draw(st.integers(3, 45)),
    }
    skips = data.draw(st.booleans())
    decoder = StopSequenceDecoder(
        tokenizer, StopConditions(**conditions), ids, skip_special_tokens=skips
    )
    chunks = [decoder.step(each) for each in ids if not decoder.finished]
    chunks.append(decoder.flush("stop"))
    text = "".join(each.text for each in chunks)
    body = {"prompt": ids, "skip_special_tokens": skips, **conditions}
    whole = running.post(**body).json()["choices"][0]
    reason = decoder.match.stop if decoder.match is not None else None
    assert (whole["text"], whole["finish_reason"]) == (text, decoder.finish_reason)
    assert whole["stop_reason"] == reason
    assert _streamed(running, body) == text


def _streamed(running: Served, body: dict[str, Any]) -> str:
    response = running.post(stream=True, **body)
    lines = [line[6:] for line in response.text.split("\n") if line.startswith("data: {")]
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines)
