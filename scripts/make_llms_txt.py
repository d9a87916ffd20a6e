"""Writes ``docs/llms.txt``, for assistants that write code with streamdec: the pages, and the gist.

In the format of llmstxt.org: a title, a summary, what must be known, and lists of links. The links
and what is said of them are the lines of ``docs/*/index.md``. They lead to the pages' Markdown,
which the site has beside its HTML; pages made of docstrings have none, and are linked as HTML.

Run it after changing an index: ``python scripts/make_llms_txt.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
TARGET = DOCS / "llms.txt"
ROOMS = ("tutorial", "how-to", "explanation", "reference")
LINE = re.compile(r"(?:-|\d+\.) \[([^\]]+)\]\(([^)]+)\): (.+)")
INTRODUCTION = """\
# streamdec

> streamdec is a Python library (3.11 or newer) that turns the token ids of an LLM engine into text
> while they come: exact to the byte, with stop strings that never leak and never swallow text. It
> reads tokenizer.json, tiktoken, Tekken, SentencePiece and GGUF files, and goes around vLLM,
> SGLang, transformers, mlx-lm, llama-cpp-python, Dynamo and any iterator of ids.

It is on no package index yet: `pip install .` in a clone; extras by name, as `pip install
'.[cli]'`. Around an engine:

```python
from streamdec import load_tokenizer, stream

tokenizer = load_tokenizer("path/to/model")  # once, not for each request


async def answer(engine, prompt_ids):  # engine: an iterator of ids, lists of ids, outputs
    ends = {"stop": ["\\nUser:"], "eos_token_ids": [2], "max_tokens": 200}
    async with stream(engine, tokenizer, prompt_token_ids=prompt_ids, **ends) as chunks:
        async for chunk in chunks:
            print(chunk.text, end="")  # the last chunk has finish_reason and stop_reason
```

By hand, without an event loop:

```python
from streamdec import StopConditions, StopSequenceDecoder

decoder = StopSequenceDecoder(tokenizer, StopConditions(stop=["\\nUser:"], eos_token_ids=[2]))
for token_id in tokenizer.encode("It is 42.\\nUser: no").ids:
    chunk = decoder.step(token_id)  # a Chunk: text, finish_reason, stop_reason
    print(chunk.text, end="")
    if chunk.finish_reason:
        break
else:
    print(decoder.flush("length").text, end="")  # what was withheld
```

What is often got wrong:

- Without stops: `DecodeStream(tokenizer, prompt_token_ids)`; `step(token_id)` returns a str, ""
  while a character is unfinished and never None; `flush()` once at the end. `iter_chunks(source,
  tokenizer, ...)` is `stream` for plain iterables.
- `StopSequenceDecoder` takes a `StopConditions`, not a string. `stream` and `iter_chunks` take its
  options themselves: `stop`, `stop_token_ids`, `visible_stop`, `visible_stop_token_ids`,
  `stop_regex`, `max_match_length`, `stop_token_sequences`, `eos_token_ids`, `ignore_eos`,
  `min_tokens`, `max_tokens`, `include_stop_str_in_output`, `ignore_stops_between`,
  `starts_inside`, `enable_stops_after`, `disable_stops_after`. There is no `stops`,
  `stop_strings` or `max_new_tokens`.
- Nothing ends a stream that was not named: no end-of-sequence id and no limit is assumed.
- Read a request with `from_openai(body)`, `from_vllm(params)` or `from_sglang(params)` of
  `streamdec.integrations.requests`.
- After a chunk with a `finish_reason` a further `step` raises `FinishedError`.
- Options of decoding: `skip_special_tokens=True` (False for `Sequence`), `byte_fallback="eager"` or
  `"exact"`, `unknown_ids="skip"`, `"error"` or `"replace"`, `clean_up_tokenization_spaces=False`.
- An engine whose outputs repeat all ids (vLLM's and SGLang's default) needs `cumulative=True`.
  Outputs of another shape: `ids=lambda output: ...`.
- A plain iterator blocks the event loop. A thread puts its ids into a `TokenQueue`, which is a
  source.
- `break` does not end a stream; `async with` does, and then the engine's iterator is closed.
- A tokenizer that exists already is wrapped once:
  `HuggingFaceTokenizer(tokenizers_or_transformers_object)`. `load_tokenizer` downloads nothing
  unless `allow_download=True`.
- `tokenizer.encode(text).ids` are ids (no special tokens are added unless
  `add_special_tokens=True`); `tokenizer.decode(ids)` leaves special tokens out.
- Many requests at once: `DecoderPool`. For `generate` of transformers:
  `streamdec.integrations.transformers.GenerateStreamer`. Events for clients of OpenAI and
  Anthropic: `streamdec.integrations.openai.ChatCompletionEncoder` and
  `streamdec.integrations.openai.CompletionEncoder`,
  `streamdec.integrations.anthropic.MessageEncoder`, and for ASGI servers
  `streamdec.integrations.asgi.EventStreamResponse`.
- `snapshot()` is JSON; `StopSequenceDecoder.restore(tokenizer, snapshot)` goes on elsewhere.
"""


def text() -> str:
    """The whole file."""
    return "\n".join([INTRODUCTION, *_rooms()])


def _rooms() -> Iterator[str]:
    for room in ROOMS:
        title, section = room.capitalize(), None
        items: list[str] = []
        for line in _unwrapped(DOCS / room / "index.md"):
            if line.startswith("# "):
                title = line[2:]
            elif line.startswith("## "):
                yield from _section(title, section, items)
                section, items = line[3:], []
            elif match := LINE.fullmatch(line):
                name, path, note = match.groups()
                items.append(f"- [{name}]({_address(room, path)}): {note}")
        yield from _section(title, section, items)


def _section(title: str, section: str | None, items: list[str]) -> Iterator[str]:
    if items:
        yield f"## {title}: {section}" if section else f"## {title}"
        yield ""
        yield from items
        yield ""


def _unwrapped(index: Path) -> Iterator[str]:
    """The lines of an index, each item and paragraph as one."""
    whole = ""
    for line in index.read_text("utf-8").splitlines():
        if line.startswith(("  ", "\t")) and whole:
            whole += " " + line.strip()
            continue
        if whole:
            yield whole
        whole = line.rstrip()
    if whole:
        yield whole


def _address(room: str, path: str) -> str:
    """Where the site has a page: as Markdown, or as HTML what Sphinx makes of docstrings."""
    if path.startswith("api/"):
        return f"{room}/{path.removesuffix('.md')}.html"
    return f"_sources/{room}/{path}.txt"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
