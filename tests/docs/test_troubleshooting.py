"""What the troubleshooting page says of causes, tried row by row where no other page shows it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tokenizers import Tokenizer

from streamdec import (
    DecoderPool,
    DecodeStream,
    FinishedError,
    HuggingFaceTokenizer,
    MockTokenizer,
    Sequence,
    SnapshotError,
    SourceError,
    StopConditions,
    StopSequenceDecoder,
    TokenizerLoadError,
    TokenQueue,
    iter_chunks,
    load_tokenizer,
    stream,
)
from streamdec.errors import IdleTimeoutError, MissingExtraError
from tests.integrations.vocabularies import byte_fallback
from tests.support.files import tekken
from tests.support.pages import Page, make_model_folder

PAGE = Page("docs/how-to/troubleshooting.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model_folder(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return load_tokenizer(folder)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return [*tokenizer.encode(text).ids]


def says(words: str) -> None:
    """The page has these words, in any lines and with any marks."""
    assert words in re.sub(r"\s+", " ", PAGE.text.replace("`", "")), words


def test_nothing_is_generated_until_something_reads(tokenizer: Any) -> None:
    says("a stream pulls: the engine runs only while something reads the stream")
    asked = []

    def engine() -> Iterator[int]:
        asked.append(1)
        yield 41

    chunks = iter_chunks(engine(), tokenizer)
    assert asked == []
    next(chunks)
    assert asked == [1]


def test_special_tokens_give_no_text_unless_they_are_asked_for(tokenizer: Any) -> None:
    says("skip_special_tokens=False, which is the default of Sequence")
    assert DecodeStream(tokenizer).step(2) == ""
    assert DecodeStream(tokenizer, skip_special_tokens=False).step(2) == "<|im_end|>"
    assert Sequence(tokenizer, [2]).text == "<|im_end|>"


def test_the_files_of_a_folder_say_what_is_special(folder: Path, tmp_path: Path) -> None:
    says("does not mark the token as special, but other files of the folder may")
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    data = plain.to_str().replace('"special":true', '"special":false')
    (tmp_path / "tokenizer.json").write_text(data, encoding="utf-8")
    config = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(config, encoding="utf-8")
    shown = [load_tokenizer(path).decode([2]) for path in (tmp_path / "tokenizer.json", tmp_path)]
    assert shown == ["<|im_end|>", ""]


def test_a_plain_stream_in_an_asynchronous_loop(tokenizer: Any) -> None:
    says("'async for' requires an object with __aiter__ method, got TextIterator")

    async def main() -> None:
        async for _ in iter_chunks([41], tokenizer):  # type: ignore[attr-defined]
            pass

    with pytest.raises(TypeError, match="requires an object with __aiter__ method, got TextIter"):
        asyncio.run(main())


def test_an_output_of_another_shape_is_named(tokenizer: Any) -> None:
    says("SourceError: no token ids in …")
    with pytest.raises(SourceError, match="no token ids in "):
        [*iter_chunks([{"tokens": [41]}], tokenizer)]
    chunks = iter_chunks([{"tokens": [41]}], tokenizer, ids=lambda output: output["tokens"])
    assert next(chunks).text == "G"


def test_the_first_space_is_that_of_the_prompt() -> None:
    says("the stream does not know that a prompt precedes: pass prompt_token_ids=")
    library = byte_fallback()
    ids = library.encode("The fox").ids
    tokenizer = HuggingFaceTokenizer(library)
    alone, after = DecodeStream(tokenizer), DecodeStream(tokenizer, ids)
    assert "".join(map(alone.step, ids)) == "The fox"
    assert "".join(map(after.step, ids)) == " The fox"


def test_steps_after_the_end_are_rejected(tokenizer: Any) -> None:
    says("the loop calls step after a chunk with a finish_reason")
    decoder = StopSequenceDecoder(tokenizer, StopConditions(max_tokens=1))
    decoder.step(41)
    with pytest.raises(FinishedError):
        decoder.step(41)


@pytest.mark.anyio
async def test_a_silent_engine_is_noticed(tokenizer: Any) -> None:
    says("the engine is silent: idle_timeout= raises, with a snapshot from which you can continue")

    async def silent() -> AsyncIterator[int]:
        yield 41
        await anyio.sleep(60)

    chunks = stream(silent(), tokenizer, idle_timeout=0.01)
    with pytest.raises(IdleTimeoutError) as raised:
        [chunk async for chunk in chunks]
    assert raised.value.snapshot is not None


def test_a_loop_that_is_left_does_not_end_a_stream(tokenizer: Any) -> None:
    says("leaving a loop does not end a stream")
    closed = []

    def engine() -> Iterator[int]:
        try:
            yield from [41, 42, 43]
        finally:
            closed.append(1)

    chunks = iter_chunks(engine(), tokenizer)
    for _ in chunks:
        break
    gc.collect()
    assert closed == []
    chunks.close()
    assert closed == [1]


def test_a_producer_learns_that_the_reader_has_gone() -> None:
    says("put raises FinishedError when the reader has left")
    feed = TokenQueue()
    feed.end()
    with pytest.raises(FinishedError):
        feed.put(41)


def test_unfinished_requests_stay_in_the_pool(tokenizer: Any) -> None:
    says("requests that nobody finishes in a DecoderPool; len(pool) is their number")
    pool = DecoderPool(tokenizer)
    for name in ("a", "b"):
        pool.add(name)
        pool.step({name: 41})
    pool.finish("a")
    assert len(pool) == 1


def test_a_tokenizer_that_only_decodes_is_a_window(tokenizer: Any) -> None:
    says("a tokenizer that only has decode is decoded again and again")

    class Foreign:
        def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> str:
            text: str = tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
            return text

    assert DecodeStream(Foreign()).route == "window"
    assert DecodeStream(tokenizer).route == "bytes"


def test_unknown_ids_are_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    says("has no id …; unknown ids are counted* in the log")
    decoder = DecodeStream(load_tokenizer(folder))
    with caplog.at_level(logging.WARNING, logger="streamdec"):
        decoder.step_batch([5_000, 5_001])
    assert decoder.unknown_tokens == 2
    assert ["unknown ids are counted" in record.getMessage() for record in caplog.records] == [True]


def test_the_error_for_a_file_that_cannot_be_loaded_has_the_reason(tmp_path: Path) -> None:
    says("it is not the name of a known model")
    with pytest.raises(TokenizerLoadError, match="it is not the name of a known model"):
        load_tokenizer("nowhere")
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    with pytest.raises(TokenizerLoadError, match="found an empty JSON object"):
        load_tokenizer(tmp_path / "x.json")


def test_a_missing_library_comes_with_the_line_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    says("the message has the line to install")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    (tmp_path / "tekken.json").write_text(json.dumps(tekken()), encoding="utf-8")
    with pytest.raises(MissingExtraError, match=r"pip install 'streamdec\[tiktoken\]'"):
        load_tokenizer(tmp_path / "tekken.json")


def test_snapshots_say_what_does_not_fit(tokenizer: Any) -> None:
    snapshot = DecodeStream(tokenizer).snapshot()
    cases: dict[str, Callable[[], Any]] = {
        "of another tokenizer": lambda: DecodeStream.restore(MockTokenizer(), snapshot),
    }
    for words, restore in cases.items():
        says(words)
        with pytest.raises(SnapshotError, match=words):
            restore()
    says("the snapshot is of a …; write ….restore(...)")
    with pytest.raises(SnapshotError, match=r"of a DecodeStream; write DecodeStream\.restore\("):
        StopSequenceDecoder.restore(tokenizer, snapshot)
