"""``llms.txt`` of the site, for assistants that write code with streamdec.

It has the format of llmstxt.org: a title, a summary, examples, and lists of links. The links are
those of ``index.md``, and the common mistakes are those of the page on troubleshooting. The
links lead to the pages' Markdown. Pages made of docstrings have none, and are linked as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
MISTAKES = DOCS / "how-to" / "troubleshooting.md"
LINE = re.compile(r"- \[([^\]]+)\]\(([^)]+)\): (.+)")
INTRODUCTION = """\
# streamdec

> streamdec is a Python library (3.11 or newer) that turns the token ids of an LLM engine into text
> as they arrive. It never emits a broken character or part of a stop string. It reads
> tokenizer.json, tiktoken, Tekken, SentencePiece and GGUF files, and works with vLLM, SGLang,
> transformers, mlx-lm, llama-cpp-python, Dynamo and any iterator of ids.

It is not on a package index yet: run `pip install .` in a clone, with extras as in `pip install
'.[cli]'`. With an engine:

```python
from streamdec import load_tokenizer, stream

tokenizer = load_tokenizer("demo")  # or the path of your model; once, for all requests


async def answer(engine, prompt_ids):  # engine: an iterator of ids, lists of ids, outputs
    ends = {"stop": ["\\nUser:"], "eos_token_ids": [2], "max_tokens": 200}
    async with stream(engine, tokenizer, prompt_token_ids=prompt_ids, **ends) as chunks:
        async for chunk in chunks:
            print(chunk.text, end="")  # the last chunk has finish_reason and stop_reason
```

Without an event loop:

```python
from streamdec import StopConditions, StopSequenceDecoder

decoder = StopSequenceDecoder(tokenizer, StopConditions(stop=["\\nUser:"], eos_token_ids=[2]))
for token_id in tokenizer.encode("It is 42.\\nUser: no").ids:
    chunk = decoder.step(token_id)  # a Chunk: text, finish_reason, stop_reason
    print(chunk.text, end="")
    if chunk.finish_reason:
        break
else:
    print(decoder.flush("length").text, end="")  # withheld text
```
"""


def text() -> str:
    """The whole file."""
    return "\n".join([INTRODUCTION, *_mistakes(), *_pages()])


def _mistakes() -> Iterator[str]:
    """The list of common mistakes of the page on troubleshooting."""
    _, _, section = MISTAKES.read_text("utf-8").partition("\n## Common mistakes\n\n")
    items, blank, _ = section.partition("\n\n")
    if not items.startswith("- ") or not blank:
        raise ValueError(f"{MISTAKES} has no list of common mistakes")
    yield "Common mistakes:\n"
    yield items
    yield ""


def _pages() -> Iterator[str]:
    """The lists of pages of the front page, each under its headings."""
    title, section = "", ""
    items: list[str] = []
    for line in _unwrapped(DOCS / "index.md"):
        if line.startswith(("## ", "### ")):
            yield from _section(title, section, items)
            items = []
            if line.startswith("## "):
                title, section = line[3:], ""
            else:
                section = line[4:]
        elif match := LINE.fullmatch(line):
            name, path, note = match.groups()
            items.append(f"- [{name}]({_address(path)}): {note}")
    yield from _section(title, section, items)


def _section(title: str, section: str, items: list[str]) -> Iterator[str]:
    if items:
        yield f"## {title}: {section}" if section else f"## {title}"
        yield ""
        yield from items
        yield ""


def _unwrapped(index: Path) -> Iterator[str]:
    """The lines of a page, each item and paragraph as one."""
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


def _address(path: str) -> str:
    """The path of a page on the site: Markdown, or HTML if Sphinx makes it from docstrings."""
    if "/api/" in path:
        return f"{path.removesuffix('.md')}.html"
    return f"_sources/{path}.txt"
