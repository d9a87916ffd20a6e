"""How each message of ``docs/reference/errors.md`` comes about, one way for each.

In: an empty folder. Out: nothing; it raises, warns or logs. Nothing is raised by hand here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, decoders, models

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    HuggingFaceTokenizer,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TokenQueue,
    iter_chunks,
    load_tokenizer,
    stream,
)
from streamdec.bulk import BulkDecoder
from streamdec.chat.template import ChatTemplate
from streamdec.compat import TokenizersDecodeStream
from streamdec.fastpath.fast_path import VARIABLE
from streamdec.preflight import inspect
from streamdec.protocols import RawBytes, TextRules
from tests.support.files import rank_file, small_gguf, tekken
from tests.support.snapshots import resealed
from tests.support.zoo import ZOO

__all__ = ["PROVOKED"]

Provocation = Callable[[Path], Any]
PROVOKED: dict[str, Provocation] = {}
"""By the message as the page has it."""

WORDS = MockTokenizer()
MESSAGES = [{"role": "user", "content": "Hi"}]


def gives(message: str) -> Callable[[Provocation], Provocation]:
    def keep(provocation: Provocation) -> Provocation:
        assert message not in PROVOKED
        PROVOKED[message] = provocation
        return provocation

    return keep


def folder_of(folder: Path, **files: Any) -> Path:
    """``folder`` with files in it; ``__`` in a name is a full stop."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def hf() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(ZOO["byte_level_trained"]())


class TakesBack:
    """Its text of a few ids is not the beginning of that of more."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "y" if 9 in token_ids else "x" * len(token_ids)


class Lying(HuggingFaceTokenizer):
    """A table that is not its decode."""

    @property
    def rules(self) -> TextRules | None:
        return TextRules(RawBytes())

    def token_bytes(self, token_id: int) -> bytes | None:
        return b"?"


def without(library: str, call: Callable[[], Any]) -> Any:
    with mock.patch.dict(sys.modules, {library: None}):
        return call()


# --- token ids ------------------------------------------------------------------------------------

IDS = {
    "token 0 is a bool: True; a token id is an integer from 0 to 4294967295": [True],
    "token 0 is of type list: [1]; a token id is …": [[1]],
    "token 2 is out of range: -1; a token id is …": [1, 2, -1, 3],
    "token ids must be a list or an array, not str; …": "123",
    "an array of token ids must have one dimension, not 2; …": np.array([[1, 2], [3, 4]]),
}
for said, ids in IDS.items():
    gives(said)(lambda _, ids=ids: DecodeStream(WORDS).step_batch(ids))  # type: ignore[misc]


@gives(
    "token 0: the tokenizer has no id 77; check that tokenizer and model match, or pass "
    "unknown_ids='skip', which outputs nothing for it"
)
def _(_: Path) -> Any:
    DecodeStream(WORDS, unknown_ids="error").step(77)


# --- streams and snapshots ------------------------------------------------------------------------


@gives("the stream has ended (length); reset() begins again")
def _(_: Path) -> Any:
    flushed = DecodeStream(WORDS)
    flushed.flush()
    flushed.step(1)


@gives("the stream has ended (stop); reset() begins again")
def _(_: Path) -> Any:
    ended = StopSequenceDecoder(WORDS, StopConditions(stop_token_ids=[999]))
    ended.step(999)
    ended.step(1)


@gives(
    "decode() changed text that was already output: … became …; this stream cannot continue after "
    "this token"
)
def _(_: Path) -> Any:
    DecodeStream(TakesBack()).step_batch([1, 2, 3, 9])


@gives("Invalid prefix encountered while decoding stream: …")
def _(_: Path) -> Any:
    vocabulary = {"a": 0, "b": 1, "c": 2}
    library = Tokenizer(models.WordLevel(vocabulary, "a"))
    library.decoder = decoders.Decoder.custom(TakesBackPieces())
    old = TokenizersDecodeStream()
    for token_id in (0, 1, 2):
        old.step(library, token_id)


class TakesBackPieces:
    """A decoder in Python that changes the beginning once there is a ``c``."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return ["y"] if "c" in tokens else tokens


@gives("Tokenizer.encode_batch_fast: Exception: …")
def _(_: Path) -> Any:
    without_unknown = Tokenizer(models.WordPiece({"Hi": 0}, unk_token="[UNK]"))
    HuggingFaceTokenizer(without_unknown).encode("?")


@gives("the snapshot is of another tokenizer: it has …, expected …")
def _(_: Path) -> Any:
    DecodeStream.restore(hf(), DecodeStream(WORDS).snapshot())


@gives("the snapshot is of a DecodeStream; write DecodeStream.restore(...)")
def _(_: Path) -> Any:
    StopSequenceDecoder.restore(WORDS, DecodeStream(WORDS).snapshot())


@gives("snapshot format 2 is not known; this release reads 1")
def _(_: Path) -> Any:
    DecodeStream.restore(WORDS, DecodeStream(WORDS).snapshot() | {"format": 2})


@gives("malformed snapshot: …")
def _(_: Path) -> Any:
    DecodeStream.restore(WORDS, resealed(DecodeStream(WORDS).snapshot(), {"surprise": 1}))


@gives("the snapshot is damaged: its checksum does not fit")
def _(_: Path) -> Any:
    DecodeStream.restore(WORDS, DecodeStream(WORDS).snapshot() | {"surprise": 1})


# --- stop conditions ------------------------------------------------------------------------------

CONDITIONS: dict[str, dict[str, Any]] = {
    "stop: an empty stop would match everywhere; leave it out": {"stop": ["END", ""]},
    "stop: '\\ud800' has a lone surrogate, half of a character: write the whole character": {
        "stop": "\ud800"
    },
    "max_tokens must be at least 1, not 0": {"max_tokens": 0},
    "min_tokens (4) must not exceed max_tokens (3)": {"min_tokens": 4, "max_tokens": 3},
    "stop_regex 'a*' may match the empty string, which would match everywhere: make a part of it "
    "required, such as x+ instead of x*": {"stop_regex": "a*"},
    "stop_regex 'ab+' can match text of any length: set max_match_length, which bounds what is "
    "withheld": {"stop_regex": "ab+"},
    "stop_regex 'a(?=b)' has a look-ahead, but the text after the match is not known yet: leave it "
    "out, or name the character": {"stop_regex": "a(?=b)"},
    "stop_regex 'a$' uses $ or \\Z, but the end of the text is not known while it streams: "
    "leave it out": {"stop_regex": "a$"},
}
for said, arguments in CONDITIONS.items():
    gives(said)(lambda _, given=arguments: StopConditions(**given))  # type: ignore[misc]


@gives(
    "stop_regex '(?P<x>a)(?P=x)' refers to a group (\\1), but what a group matched is not "
    "remembered: write the alternatives"
)
def _(_: Path) -> Any:
    StopConditions(stop_regex="(?P<x>a)(?P=x)")


@gives(
    "stop_regex 'a{2000}' has more than 1,000 parts, repetitions counted: x{0,9} has 18. Use x* "
    "or x+ with max_match_length"
)
def _(_: Path) -> Any:
    StopConditions(stop_regex="a{2000}")


# --- engines, queues and pools --------------------------------------------------------------------


@gives(
    "no token ids in a dict of ['text'], which the source yielded; expected an id, a list of ids, "
    "or an object with token_ids, output_ids, token_ids_diff or outputs; for other objects pass "
    "ids=, a function that returns the ids"
)
def _(_: Path) -> Any:
    list(iter_chunks([{"text": "Hi"}], WORDS))


@gives("the source has several samples, such as 0 and 1; choose one with index=")
def _(_: Path) -> Any:
    samples = [{"index": index, "token_ids": [1]} for index in (0, 1)]
    list(iter_chunks([{"outputs": samples}], WORDS))


@gives("cumulative=True expects each output to begin with all earlier ids: …")
def _(_: Path) -> Any:
    list(iter_chunks([[1, 2], [3]], WORDS, cumulative=True))


@gives("no output of the source for 0.01 seconds")
def _(_: Path) -> Any:
    async def silent() -> AsyncIterator[int]:
        await anyio.sleep_forever()
        yield 1

    async def main() -> None:
        async with stream(silent(), WORDS, idle_timeout=0.01) as chunks:
            async for _ in chunks:
                pass

    anyio.run(main)


@gives("idle_timeout needs an async source: a plain one cannot be interrupted")
def _(_: Path) -> Any:
    stream([1], WORDS, idle_timeout=1)


def full() -> TokenQueue:
    feed = TokenQueue(maxsize=1)
    feed.put(1)
    return feed


@gives("the queue is full: 1 ids wait")
def _(_: Path) -> Any:
    full().put(2, wait=False)


@gives(
    "the queue is full: 1 ids wait, and put() must not wait in the thread of an event loop; await "
    "send() instead"
)
def _(_: Path) -> Any:
    async def main() -> None:
        full().put(2)

    anyio.run(main)


@gives("the queue was full for 0.01 seconds; the reader is too slow")
def _(_: Path) -> Any:
    full().put(2, timeout=0.01)


@gives("the sink is behind: … code points wait, at most 65536 may")
def _(_: Path) -> Any:
    class Stuck:
        is_behind = True

        def __call__(self, chunk: Chunk) -> None:
            """Take the last chunk."""

    pool = DecoderPool(MockTokenizer.from_tokens([b"a" * 70_000]))
    pool.add("a")
    pool.attach("a", Stuck())
    pool.step({"a": [0]})
    raise pool.errors["a"]


@gives("nothing can be read from the queue: it was closed; make a TokenQueue for each stream")
def _(_: Path) -> Any:
    async def main() -> None:
        feed = TokenQueue()
        feed.close()
        await anext(feed)

    anyio.run(main)


@gives("nothing can be put into the queue: its reader has closed it")
def _(_: Path) -> Any:
    async def main() -> None:
        feed = TokenQueue()
        await feed.aclose()
        feed.put(1)

    anyio.run(main)


@gives("the pool has no request 'a'")
def _(_: Path) -> Any:
    DecoderPool(WORDS).finish("a")


@gives("the pool already has a request 'a'")
def _(_: Path) -> Any:
    pool = DecoderPool(WORDS)
    pool.add("a")
    pool.add("a")


# --- loading --------------------------------------------------------------------------------------


@gives(
    "'…': No such file or directory; it is not the name of a known model or "
    "encoding (…); from the Hub: …"
)
def _(_: Path) -> Any:
    load_tokenizer("llama-9")


@gives("the rank file of cl100k_base is not in the cache: downloads are not allowed …")
def _(folder: Path) -> Any:
    with mock.patch.dict(os.environ, TIKTOKEN_CACHE_DIR=str(folder)):
        load_tokenizer("cl100k_base")


@gives(
    "'…': an unknown rank file (SHA-256 …), not one of …; such a file does not say how text is "
    "split: pass encoding=EncodingSpec(name, pattern, special_tokens)"
)
def _(folder: Path) -> Any:
    load_tokenizer(folder_of(folder, a__tiktoken=rank_file()))


@gives("'…': not a tokenizer.json: …")
def _(folder: Path) -> Any:
    load_tokenizer(folder_of(folder, tokenizer__json=b'{"model": {'))


@gives("'…': found a folder with tokenizer_config.json but no tokenizer.json (…); supported: …")
def _(folder: Path) -> Any:
    load_tokenizer(folder_of(folder, tokenizer_config__json={"tokenizer_class": "Slow"}))


@gives(
    "'…': found a folder with several tokenizer files: a.tiktoken, b.tiktoken; give the path of "
    "one; supported: …"
)
def _(folder: Path) -> Any:
    load_tokenizer(folder_of(folder, a__tiktoken=rank_file(), b__tiktoken=rank_file()))


@gives("'…': found a Git LFS pointer, not the file it stands for (run git lfs pull); supported: …")
def _(folder: Path) -> Any:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    load_tokenizer(folder_of(folder, tokenizer__json=pointer))


@gives("fast must be one of off, now, background, got 'rust'")
def _(folder: Path) -> Any:
    load_tokenizer(folder_of(folder, tekken__json=tekken()), fast="rust")  # type: ignore[arg-type]


@gives("this tokenizer needs the library tiktoken: pip install 'streamdec[tiktoken]'")
def _(folder: Path) -> Any:
    without("tiktoken", lambda: load_tokenizer(folder_of(folder, tekken__json=tekken())))


# --- text to ids ----------------------------------------------------------------------------------


@gives("the text contains special tokens, which are forbidden: '<eos>'")
def _(_: Path) -> Any:
    hf().encode("Hi<eos>", special="forbid")


@gives("a lone surrogate cannot be encoded: U+D800 at index 0")
def _(_: Path) -> Any:
    hf().encode("\ud800")


@gives("… can decode but not encode: …")
def _(folder: Path) -> Any:
    (folder / "a.gguf").write_bytes(small_gguf(model="t5"))
    load_tokenizer(folder).encode("Hi")


@gives("the tokens do not spell the text: it was normalized")
def _(_: Path) -> Any:
    return WORDS.encode("Hello, wide world").offsets


# --- chat templates -------------------------------------------------------------------------------

TEMPLATES = {
    "Conversation roles must alternate user/assistant/user/assistant/…": (
        "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...')"
        " }}"
    ),
    "the template cannot be read, line 1: …": "{% for %}",
    "the chat template, line 1: OverflowError: Range too big. The sandbox blocks ranges larger "
    "than MAX_RANGE (100000).": "{% for i in range(10**9) %}x{% endfor %}",
}
for said, template in TEMPLATES.items():
    gives(said)(lambda _, source=template: ChatTemplate(source).render(MESSAGES))  # type: ignore[misc]


@gives("no chat template: … has no chat_template.jinja, no …")
def _(folder: Path) -> Any:
    folder_of(folder, tokenizer__json=ZOO["byte_fallback"]().to_str().encode())
    load_tokenizer(folder).apply_chat_template(MESSAGES)


@gives(
    "the chat template, line 1: UndefinedError: 'list object' has no attribute 'strip'; "
    "the content of message 0 is a list of parts, and the template takes only text; …"
)
def _(_: Path) -> Any:
    parts = [{"type": "text", "text": "Hi"}]
    messages = [{"role": "user", "content": parts}]
    ChatTemplate("{{ messages[0].content.strip() }}").render(messages)


@gives(
    "the chat template has no variable 'add_generation_promt'; did you mean the option "
    "add_generation_prompt?"
)
def _(_: Path) -> Any:
    ChatTemplate("{{ messages }}").render(MESSAGES, add_generation_promt=True)


@gives("messages must have at least one message")
def _(_: Path) -> Any:
    ChatTemplate("{{ messages }}").render([])


@gives("template_kwargs must not have 'chat_template': …")
def _(_: Path) -> Any:
    ChatTemplate("{{ 1 }}").render(MESSAGES, template_kwargs={"chat_template": "{{ 1 }}"})


# --- folders, datasets ----------------------------------------------------------------------------


@gives("'…': expected the folder of a model, found nothing")
def _(folder: Path) -> Any:
    inspect(folder / "gone")


@gives("no column 'tokens'; the columns are: 'token_ids'; choose one with column=")
def _(_: Path) -> Any:
    BulkDecoder(WORDS, column="tokens")(pa.table({"token_ids": [[1]]}))


# --- warnings and the log -------------------------------------------------------------------------


@gives(
    "an output began with all ids of the output before it, so the engine's outputs seem to be "
    "cumulative …"
)
def _(_: Path) -> Any:
    list(iter_chunks([[1], [1, 2], [1, 2, 3], [1, 2, 3, 1]], WORDS))


@gives(
    "sections: the marker '<eos>?' contains '<eos>', a special token that is skipped, so the "
    "marker is not found; pass skip_special_tokens=False"
)
def _(_: Path) -> Any:
    StopSequenceDecoder(WORDS, sections={"reasoning": ("<eos>?", "</think>")})


@gives("…; streaming over a window of decode() instead")
def _(_: Path) -> Any:
    DecodeStream(Lying(ZOO["byte_level_trained"]()))


@gives("…: 1 added tokens have other ids than the file says: …")
def _(folder: Path) -> Any:
    content = json.loads(ZOO["word_level"]().to_str())
    content["added_tokens"].append(
        {
            "id": 10**6,
            "content": "<new>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    )
    load_tokenizer(folder_of(folder, tokenizer__json=content))


@gives("…: the ids here are those of tokenizer.json, and … in other files contradict it: …")
def _(folder: Path) -> Any:
    content = json.loads(ZOO["word_level"]().to_str())
    folder_of(folder, tokenizer__json=content)
    load_tokenizer(folder_of(folder, added_tokens__json={"hello": 10**6}))


@gives("…: added tokens whose letters stand for bytes (…): … They are decoded as other text: …")
def _(folder: Path) -> Any:
    content = ZOO["byte_level_trained"]().to_str().encode()
    load_tokenizer(folder_of(folder, tokenizer__json=content))


@gives("…: a GGUF file does not fully describe how a text is split; encoding is best effort")
def _(folder: Path) -> Any:
    (folder / "a.gguf").write_bytes(small_gguf())
    load_tokenizer(folder).encode("Hi")


@gives(
    "the environment variable STREAMDEC_FAST must be one of off, now, background, got 'rust': it "
    "is ignored, and 'background' is used"
)
def _(folder: Path) -> Any:
    with mock.patch.dict(os.environ, {VARIABLE: "rust"}):
        load_tokenizer(folder_of(folder, tekken__json=tekken()))


@gives("… has no id 12345; unknown ids are counted in unknown_tokens, and not logged again")
def _(_: Path) -> Any:
    DecodeStream(MockTokenizer()).step(12345)
