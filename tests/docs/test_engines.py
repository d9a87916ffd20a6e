"""The pages for users of other detokenizers: their tables have what both sides return.

Each test needs the library that it compares with. The groups ``engines`` and ``vllm`` have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream as LibraryStream

from streamdec import (
    DecodeStream,
    HuggingFaceTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TokenIdError,
    load_tokenizer,
)
from tests.integrations.vocabularies import ANSWER, VOCABULARIES
from tests.support.pages import Page, make_model_folder


def cells(page: str, head: str) -> dict[str, list[str]]:
    """The table of a page on an engine: what is between the marks of code in each cell."""
    rows = Page(f"docs/engines/{page}.md").rows(head)
    return {row.replace("`", ""): [each.strip("`") for each in rest] for row, rest in rows.items()}


def names_of(engine: str) -> str:
    """The first cells of the table of names."""
    return " ".join(Page(f"docs/engines/{engine}.md").rows(engine))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_model_folder(tmp_path / "model")


def test_tokenizers(folder: Path) -> None:
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = load_tokenizer(folder)
    rows = cells("tokenizers", "the same ids")

    def steps(ids: Iterable[int], prompt: Iterable[int] = ()) -> tuple[list[Any], list[str], str]:
        theirs, ours = LibraryStream(ids=[*prompt]), DecodeStream(tokenizer, prompt)
        found = [theirs.step(library, token_id) for token_id in ids], [*map(ours.step, ids)]
        return *found, ours.flush()

    theirs, ours, rest = steps(library.encode("Grüße 😀!").ids)
    assert rows["each step of Grüße 😀!"] == [repr(theirs), repr(ours)]
    assert rest == ""
    ids = library.encode("ok 😀").ids
    theirs, ours, rest = steps(ids[:-1])
    joined = repr("".join(each or "" for each in theirs)), repr("".join(ours) + rest)
    assert rows["the ids end inside an emoji: ok 😀"] == [*joined]
    theirs, ours, _ = steps(ids[-1:], ids[:-1])
    row = rows["the prompt ends inside an emoji, then its last byte"]
    assert row == [repr(theirs[0]), repr(ours[0])]
    bad = [library.token_to_id(piece) or 0 for piece in ("G", "ÿ", "a")]
    theirs, ours, _ = steps(bad)
    assert rows["the bytes 47 ff 61, step by step"] == [repr(theirs), repr(ours)]
    assert LibraryStream().step(library, True) == library.id_to_token(1)
    with pytest.raises(TokenIdError):
        DecodeStream(tokenizer).step(True)
    assert rows["the id True"] == ["id 1", "TokenIdError"]


def test_transformers() -> None:
    from threading import Thread

    scripted = pytest.importorskip("tests.integrations.transformers.scripted")
    from streamdec.integrations.transformers import GenerateStreamer

    library = scripted.transformers
    tokenizer = library.PreTrainedTokenizerFast(tokenizer_object=scripted.tokenizer_of("gpt2"))
    head = 'the same call of `generate`, with the stop `"\\nUser:"`'
    rows = cells("transformers", head)
    stops = {"stop_strings": ["\nUser:"], "tokenizer": tokenizer, "max_new_tokens": 200}

    def asked(text: str) -> Any:
        return tokenizer(text, return_tensors="pt", return_token_type_ids=False)

    def ours(answer: str, inputs: Any) -> tuple[str, Any, Any]:
        model = scripted.Model("gpt2", [scripted.spelled("gpt2", answer)])
        with GenerateStreamer(tokenizer, stop="\nUser:") as streamer:
            streamer.start(model, **inputs, max_new_tokens=200)
            chunks = [chunk for _, chunk in streamer]
        text = "".join(chunk.text for chunk in chunks)
        return repr(text), chunks[-1].stop_reason, streamer.decoders[0].match

    inputs = asked("one two three")
    theirs = library.TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=60)
    model = scripted.Model("gpt2", [scripted.spelled("gpt2", ANSWER)])
    Thread(target=model.generate, kwargs={**inputs, "streamer": theirs, **stops}).start()
    text, stop, match = ours(ANSWER, inputs)
    assert rows["the text of the reader"] == [repr("".join(theirs)), text]
    assert rows["which stop it was, and where"][1] == f"{stop!r}`, {match.start}"

    inputs, answer = asked("who?\nUser"), ": I am. You are."
    model = scripted.Model("gpt2", [scripted.spelled("gpt2", answer)])
    new = model.generate(**inputs, **stops)[0, inputs["input_ids"].shape[1] :]
    row = f'the prompt ends with "\\nUser", the answer is {answer}'
    assert rows[row] == [repr(tokenizer.decode(new)), ours(answer, inputs)[0]]

    for name in ("TextStreamer", "TextIteratorStreamer", "AsyncTextIteratorStreamer"):
        assert f"`{name}" in names_of("transformers")
        assert hasattr(library, name)
    assert "StopStringCriteria" in dir(library)


@pytest.fixture
def detokenizer(folder: Path) -> Callable[..., Any]:
    """Makes vLLM's own detokenizer, with as much of a request as it reads."""
    vllm = pytest.importorskip("vllm", reason="not installed: nox -s vllm")
    from transformers import PreTrainedTokenizerFast
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    held = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))

    def make(prompt: Iterable[int] = (), **params: Any) -> Any:
        asked = {"request_id": "0", "prompt_token_ids": [*prompt]}
        asked["sampling_params"] = vllm.SamplingParams(**params)
        return FastIncrementalDetokenizer(held, SimpleNamespace(**asked))

    return make


@pytest.mark.filterwarnings("default")  # of vLLM and torch, while they are imported
def test_vllm(folder: Path, detokenizer: Callable[..., Any]) -> None:
    tokenizer = load_tokenizer(folder)
    rows = cells("vllm", "the same ids")

    def ours(stop: Any = (), prompt: Iterable[int] = ()) -> StopSequenceDecoder:
        return StopSequenceDecoder(tokenizer, StopConditions(stop), prompt)

    texts, theirs = [], detokenizer(stop=["</tool_call>"])
    ids = tokenizer.encode("One, two, three.").ids
    for token_id in ids:
        theirs.update([token_id], False)
        texts.append(theirs.get_next_output_text(finished=False, delta=True))
    decoder = ours("</tool_call>")
    assert rows['One, two, three. with the stop "</tool_call>", step by step'] == [
        repr(texts),
        repr([decoder.step(token_id).text for token_id in ids]),
    ]

    emoji = tokenizer.encode("Say 😀").ids
    theirs = detokenizer(prompt=emoji[:-1])
    theirs.update(emoji[-1:], False)
    assert rows["the prompt Say 😀 ends inside the emoji, then its last byte"] == [
        repr(theirs.get_next_output_text(finished=True, delta=True)),
        repr(ours(prompt=emoji[:-1]).step(emoji[-1]).text),
    ]

    theirs, decoder = detokenizer(), ours()
    theirs.update(emoji[:-1], False)
    assert rows["Say 😀 ends inside the emoji at a limit"] == [
        repr(theirs.get_next_output_text(finished=True, delta=True)),
        repr(decoder.feed(emoji[:-1]).text + decoder.flush("length").text),
    ]

    for row, text, stops in (
        ('no User: x with the stops ["er:", "User:"]', "no User: x", ["er:", "User:"]),
        (
            'Done.<|im_end|> with the stop "<|im_end|>", special tokens skipped',
            "Done.<|im_end|>\nand on",
            ["<|im_end|>"],
        ),
    ):
        ids = tokenizer.encode(text).ids
        stop = detokenizer(stop=stops).update(ids, False)
        assert rows[row] == [repr(stop), repr(ours(stops).feed(ids).stop_reason)]


def test_mlx_lm() -> None:
    scripted = pytest.importorskip("tests.integrations.mlx_lm.scripted")
    from streamdec.integrations.mlx_lm import StreamingDetokenizer

    utils, generation = scripted.tokenizer_utils, scripted.generation
    tokenizer = utils.TokenizerWrapper(
        scripted.wrapped(VOCABULARIES["byte_level"]()), utils.BPEStreamingDetokenizer
    )
    rows = cells("mlx-lm", "the same ids")
    ids = [*tokenizer.encode(" Two"), len(tokenizer) + 5]
    texts = []
    for detokenizer in (utils.BPEStreamingDetokenizer(tokenizer), StreamingDetokenizer(tokenizer)):
        for token in ids:
            detokenizer.add_token(token)
        detokenizer.finalize()
        texts.append(repr(detokenizer.text))
    assert rows['" Two" and an id that the tokenizer does not have'] == texts
    assert texts[1] == repr(tokenizer.decode(ids))

    matcher = generation.make_stop_sequences(tokenizer, ["User:"]).matcher()
    spelled = [tokenizer.encode(letter)[0] for letter in "so User: I"]
    decoder = StopSequenceDecoder(HuggingFaceTokenizer(tokenizer), StopConditions("User:"))
    advanced = [matcher.advance(token) for token in spelled]
    assert not any(advanced)
    assert decoder.feed(spelled).text == "so "
    assert rows["the stop User:, spelled letter by letter"] == ["does not stop", "stops"]

    for name in ("StopSequences", "make_stop_sequences", "TextStateMachine", "GenerationResponse"):
        assert f"`{name}" in names_of("mlx-lm")
        assert hasattr(generation, name)
