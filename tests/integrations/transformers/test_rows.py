"""Drawn batches, told to the streamer as ``generate`` tells them; a decoder for each row judges."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamdec import HuggingFaceTokenizer, StopConditions, StopSequenceDecoder
from streamdec.integrations.transformers import GenerateStreamer
from tests.integrations.transformers.tensors import Tensor
from tests.integrations.vocabularies import VOCABULARIES, spelled

ENDS = (2, 40)
PAD = spelled("byte_level", "x")[0]


def ids() -> st.SearchStrategy[int]:
    letters = spelled("byte_level", "ab.😀ß ")
    return st.sampled_from([*letters, *ENDS]) | st.integers(0, 450)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Prompts of one length, rows of one length, and after how many tokens the criteria are asked.

    After its end a row is padded.
    """
    num_rows = draw(st.integers(1, 4))
    length = draw(st.integers(1, 24))
    num_prompt = draw(st.integers(0, 5))
    rows = [draw(st.lists(ids(), min_size=length, max_size=length)) for _ in range(num_rows)]
    for row in rows:
        end = next((place for place, each in enumerate(row) if each in ENDS), length)
        row[end + 1 :] = [PAD] * (length - end - 1)
    prompts = [
        draw(st.lists(ids(), min_size=num_prompt, max_size=num_prompt)) for _ in range(num_rows)
    ]
    sizes = draw(st.lists(st.integers(1, 4), min_size=length, max_size=length))
    return prompts, rows, [cut for cut in accumulate(sizes) if cut < length] + [length]


@given(batch=batches(), kind=st.sampled_from(["byte_level", "byte_fallback"]), data=st.data())
def test_each_row_equals_a_decoder(batch: Any, kind: str, data: st.DataObject) -> None:
    prompts, rows, cuts = batch
    tokenizer = HuggingFaceTokenizer(VOCABULARIES[kind]())
    conditions = [
        StopConditions(
            data.draw(st.lists(st.text("ab.ß", min_size=1, max_size=3), max_size=2)),
            min_tokens=data.draw(st.integers(0, 3)),
            max_tokens=data.draw(st.none() | st.integers(3, 20)),
        )
        for _ in rows
    ]
    streamer = GenerateStreamer(tokenizer, conditions, eos_token_ids=ENDS, return_token_ids=True)
    streamer.put(Tensor(prompts))
    everything = Tensor([a + b for a, b in zip(prompts, rows, strict=True)])
    num_prompt = len(prompts[0])
    num_asked = 0
    for cut in cuts:
        ended = streamer(everything[:, : num_prompt + cut], None).tolist()
        num_asked += 1
        if all(ended):
            break
    streamer.end()
    found = [*streamer]
    for place, row in enumerate(rows):
        expected = StopSequenceDecoder(tokenizer, conditions[place], prompts[place])
        text, covered, reason = "", [], "length"
        for each in row[: cuts[num_asked - 1]]:
            if each in ENDS and expected.num_tokens >= conditions[place].min_tokens:
                text += expected.flush("stop").text
                covered.append(each)
                break
            text += expected.step(each).text
            covered.append(each)
            if expected.finished or each in ENDS:
                reason = "stop"
                break
        text += expected.flush("stop" if reason == "stop" else "length").text
        mine = [chunk for at, chunk in found if at == place]
        assert "".join(chunk.text for chunk in mine) == text
        assert mine[-1].finish_reason == expected.finish_reason
        assert mine[-1].stop_reason == (expected.match.stop if expected.match else None)
        assert [each for chunk in mine for each in chunk.token_ids] == covered


def test_the_rows_of_a_prompt_have_its_conditions() -> None:
    tokenizer = HuggingFaceTokenizer(VOCABULARIES["byte_level"]())
    comma, dot, x = spelled("byte_level", ",.x")
    two = [StopConditions(","), StopConditions(".")]
    streamer = GenerateStreamer(tokenizer, two, eos_token_ids=())
    streamer.put(Tensor([[x]] * 4))
    assert streamer(Tensor([[x, comma]] * 4)).tolist() == [True, True, False, False]
    assert streamer(Tensor([[x, comma, dot]] * 4)).tolist() == [True] * 4
