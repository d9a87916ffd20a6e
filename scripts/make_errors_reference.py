"""Writes ``docs/reference/errors.md`` from the docstrings of ``streamdec/errors.py``.

Run it after changing one: ``python scripts/make_errors_reference.py``. The messages that are listed
are raised by ``tests/docs/provoked.py``, each of them.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from streamdec import errors

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "reference" / "errors.md"
WIDTH = 100
LABELS = ("When", "State", "What to do")
"""What the paragraphs of each docstring begin with, after the first."""


class Message(NamedTuple):
    """A message that people see."""

    error: str
    """Its class, or ``log`` and the level."""
    text: str
    """The message. ``…`` stands for parts that vary."""
    why: str
    """Why it comes, and what to do, in Markdown."""
    page: str
    """More, from the page of the errors: ``laws.md#anchor Title``."""


LAWS = "../explanation/laws.md The laws"
STOPS = "../explanation/stops.md Stops"
ASYNC = "../explanation/async.md Async streams"
FORMATS = "../explanation/formats.md Tokenizer files"
RENDER = "../how-to/render-chat-templates.md Render chat templates"
HOSTILE = "../how-to/render-chat-templates.md#untrusted-templates Untrusted chat templates"
MIGRATE = "../how-to/migrate-a-stream.md Migrate a stream"
DATASET = "../how-to/decode-a-dataset.md Decode a dataset"
DEBUG = "../how-to/troubleshooting.md#look-at-the-stream Debug a stream"
WRONG_MODEL = "../how-to/why-does-my-model-misbehave.md Why does my model misbehave"
ROUTES = "../explanation/design.md#two-routes Two routes"

MESSAGES: dict[str, tuple[Message, ...]] = {
    "Token ids": (
        Message(
            "TokenIdError",
            "token 0 is a bool: True; a token id is an integer from 0 to 4294967295",
            "Usually a mask instead of ids. Also for NumPy's bool.",
            LAWS,
        ),
        Message(
            "TokenIdError",
            "token 0 is of type list: [1]; a token id is …",
            "`step` takes one id; `step_batch` takes several. Also for `str`, `float`, None.",
            LAWS,
        ),
        Message(
            "TokenIdError",
            "token 2 is out of range: -1; a token id is …",
            "Padding or a mask that was not removed. It is an error with any `unknown_ids`.",
            LAWS,
        ),
        Message(
            "TokenIdError",
            "token 0: the tokenizer has no id 77; check that tokenizer and model match, or pass "
            "unknown_ids='skip', which outputs nothing for it",
            'Only with `unknown_ids="error"`: the model\'s vocabulary is larger than the '
            "tokenizer's, or they do not belong together.",
            WRONG_MODEL,
        ),
        Message(
            "TypeError",
            "token ids must be a list or an array, not str; …",
            "Text, bytes, a dict or a set instead of ids.",
            LAWS,
        ),
        Message(
            "TypeError",
            "an array of token ids must have one dimension, not 2; …",
            "An array or a tensor of a batch. Pass one row.",
            "../how-to/engines.md#transformers Around transformers",
        ),
    ),
    "Streams and snapshots": (
        Message(
            "FinishedError",
            "the stream has ended (length); reset() begins again",
            "A `step` after `flush`.",
            LAWS,
        ),
        Message(
            "FinishedError",
            "the stream has ended (stop); reset() begins again",
            "A `step` after a chunk with a `finish_reason`, which is in the brackets. The loop "
            "does not check `chunk.finish_reason`, or the engine was not cancelled.",
            STOPS,
        ),
        Message(
            "RewriteError",
            "decode() changed text that was already output: … became …; this stream cannot "
            "continue after this token",
            "The stream uses the windowed route, and `decode` is not append-only.",
            ROUTES,
        ),
        Message(
            "RewriteError",
            "Invalid prefix encountered while decoding stream: …",
            "The same error, raised by `streamdec.compat`. It has the message of `tokenizers`, "
            "because engines compare that text.",
            ROUTES,
        ),
        Message(
            "TokenizerLibraryError",
            "Tokenizer.encode_batch_fast: Exception: …",
            "After the colon is the library's own message. Here the tokenizer has no token for "
            "unknown words.",
            FORMATS,
        ),
        Message(
            "SnapshotError",
            "the snapshot is of another tokenizer: it has …, expected …",
            "Two hosts have different tokenizer files, even if the name is the same. Or only one "
            "of them reads the files beside it (`apply_tokenizer_config`).",
            MIGRATE,
        ),
        Message(
            "SnapshotError",
            "the snapshot is of a DecodeStream; write DecodeStream.restore(...)",
            "Call `restore` of the class that made the snapshot.",
            MIGRATE,
        ),
        Message(
            "SnapshotError",
            "snapshot format 2 is not known; this release reads 1",
            "A newer release wrote it. Use that release, or a newer one.",
            MIGRATE,
        ),
        Message(
            "SnapshotError",
            "malformed snapshot: …",
            "It was written by hand.",
            MIGRATE,
        ),
        Message(
            "SnapshotError",
            "the snapshot is damaged: its checksum does not fit",
            "It was changed in transit.",
            MIGRATE,
        ),
    ),
    "Stop conditions": (
        Message(
            "ValueError",
            "stop: an empty stop would match everywhere; leave it out",
            "An empty string in the stops, often from a form or a default.",
            LAWS,
        ),
        Message(
            "ValueError",
            "stop: '\\ud800' has a lone surrogate, half of a character: write the whole character",
            "Half of a UTF-16 pair: JavaScript can cut a string there. No text contains it.",
            LAWS,
        ),
        Message(
            "ValueError",
            "max_tokens must be at least 1, not 0",
            "None means no limit.",
            LAWS,
        ),
        Message(
            "ValueError",
            "min_tokens (4) must not exceed max_tokens (3)",
            "Lower one, or raise the other.",
            LAWS,
        ),
        Message(
            "ValueError",
            "stop_regex 'a*' may match the empty string, which would match everywhere: make a "
            "part of it required, such as x+ instead of x*",
            "The pattern needs a part that is not optional: `a+`.",
            STOPS,
        ),
        Message(
            "ValueError",
            "stop_regex 'ab+' can match text of any length: set max_match_length, which bounds "
            "what is withheld",
            "Set `max_match_length=`, or bound the pattern: `ab{1,20}`.",
            STOPS,
        ),
        Message(
            "ValueError",
            "stop_regex 'a(?=b)' has a look-ahead, but the text after the match is not known yet: "
            "leave it out, or name the character",
            "Make the look-ahead part of the match.",
            STOPS,
        ),
        Message(
            "ValueError",
            "stop_regex 'a$' uses $ or \\Z, but the end of the text is not known while it streams: "
            "leave it out",
            "Use `\\n` for the end of a line.",
            STOPS,
        ),
        Message(
            "ValueError",
            "stop_regex '(?P<x>a)(?P=x)' refers to a group (\\1), but what a group matched is not "
            "remembered: write the alternatives",
            "Write `(a|b)\\1` as `aa|bb`.",
            STOPS,
        ),
        Message(
            "ValueError",
            "stop_regex 'a{2000}' has more than 1,000 parts, repetitions counted: x{0,9} has 18. "
            "Use x* or x+ with max_match_length",
            "Write `x{0,1000}` as `x*` with `max_match_length=1000`.",
            STOPS,
        ),
    ),
    "Engines, queues and pools": (
        Message(
            "SourceError",
            "no token ids in a dict of ['text'], which the source yielded; expected an id, a list "
            "of ids, or an object with token_ids, output_ids, token_ids_diff or outputs; for other "
            "objects pass ids=, a function that returns the ids",
            "The engine yields its own type: use `ids=lambda output: output.my_ids`. If it yields "
            "text, use `wrap(source, TextStopDecoder(…))`.",
            ASYNC,
        ),
        Message(
            "SourceError",
            "the source has several samples, such as 0 and 1; choose one with index=",
            "`n` is more than 1. To read all samples, give each its own request in a "
            "`DecoderPool`.",
            ASYNC,
        ),
        Message(
            "SourceError",
            "cumulative=True expects each output to begin with all earlier ids: …",
            "The engine yields only new ids: remove `cumulative`. Or outputs of two requests are "
            "mixed.",
            ASYNC,
        ),
        Message(
            "IdleTimeoutError",
            "no output of the source for 0.01 seconds",
            "The engine hangs, or has a long queue.",
            ASYNC,
        ),
        Message(
            "ValueError",
            "idle_timeout needs an async source: a plain one cannot be interrupted",
            "Run the source in a thread that puts ids into a `TokenQueue`.",
            ASYNC,
        ),
        Message(
            "QueueFullError",
            "the queue is full: 1 ids wait",
            "`put(…, wait=False)` while the reader is slower than the producer.",
            ASYNC,
        ),
        Message(
            "QueueFullError",
            "the queue is full: 1 ids wait, and put() must not wait in the thread of an event "
            "loop; await send() instead",
            "The producer is a task, not a thread.",
            ASYNC,
        ),
        Message(
            "QueueFullError",
            "the queue was full for 0.01 seconds; the reader is too slow",
            "`put(…, timeout=0.01)` while the reader is slower than the producer.",
            ASYNC,
        ),
        Message(
            "QueueFullError",
            "the sink is behind: … code points wait, at most 65536 may",
            "In `pool.errors`: the request was aborted because its sink does not read.",
            ASYNC,
        ),
        Message(
            "FinishedError",
            "nothing can be put into the queue: its reader has closed it",
            "The stream ended at a stop, or the reader left. `it was ended`: by `end` or `fail`.",
            ASYNC,
        ),
        Message(
            "FinishedError",
            "nothing can be read from the queue: it was closed; make a TokenQueue for each stream",
            "Another stream has read the queue, or `close()` was called.",
            ASYNC,
        ),
        Message(
            "UnknownRequestError",
            "the pool has no request 'a'",
            "It has ended (its last chunk had a `finish_reason`), or was never added.",
            ASYNC,
        ),
        Message(
            "ValueError",
            "the pool already has a request 'a'",
            "Two requests have the same id, or the first was not ended.",
            ASYNC,
        ),
    ),
    "Loading a tokenizer": (
        Message(
            "TokenizerLoadError",
            "'…': No such file or directory; it is not the name of a known model or "
            "encoding (…); from the Hub: …",
            "The argument is not a path, and the name is not in the local caches. Downloads need "
            "`allow_download=True`.",
            "../explanation/formats.md#names Names",
        ),
        Message(
            "TokenizerLoadError",
            "the rank file of cl100k_base is not in the cache: downloads are not allowed …",
            "The name is known, but the file is not in tiktoken's cache.",
            "../explanation/formats.md#names Names",
        ),
        Message(
            "TokenizerLoadError",
            "'…': an unknown rank file (SHA-256 …), not one of …; such a file does not say how "
            "text is split: pass encoding=EncodingSpec(name, pattern, special_tokens)",
            "A rank file of an unknown encoding.",
            "../explanation/formats.md#rank-files Rank files",
        ),
        Message(
            "TokenizerLoadError",
            "'…': not a tokenizer.json: …",
            "The library `tokenizers` cannot read it; its own message follows. The file may be "
            "truncated, or need a newer `tokenizers`.",
            FORMATS,
        ),
        Message(
            "TokenizerLoadError",
            "'…': found a folder with tokenizer_config.json but no tokenizer.json (…); "
            "supported: …",
            "The folder has no file that can be loaded. In brackets is what to do: download the "
            "tokenizer's files, or load the folder with transformers.",
            FORMATS,
        ),
        Message(
            "TokenizerLoadError",
            "'…': found a folder with several tokenizer files: a.tiktoken, b.tiktoken; give the "
            "path of one; supported: …",
            "Pass the path of the file.",
            FORMATS,
        ),
        Message(
            "TokenizerLoadError",
            "'…': found a Git LFS pointer, not the file it stands for (run git lfs pull); "
            "supported: …",
            "The repository was cloned without LFS. Run `git lfs pull`.",
            FORMATS,
        ),
        Message(
            "ValueError",
            "fast must be one of off, now, background, got 'rust'",
            "`fast` is the time at which fastokens is built. The ids are the same in each mode.",
            FORMATS,
        ),
        Message(
            "MissingExtraError",
            "this tokenizer needs the library tiktoken: pip install 'streamdec[tiktoken]'",
            "Run the install line. It keeps the installed streamdec, also one from a clone, and "
            "adds the library. Also for sentencepiece, fastokens, jinja2, pyarrow and others.",
            FORMATS,
        ),
    ),
    "Text to ids": (
        Message(
            "EncodeError",
            "the text contains special tokens, which are forbidden: '<eos>'",
            '`special="forbid"` was set, and the text spells a special token.',
            "../explanation/formats.md#special-tokens-in-untrusted-text Untrusted text",
        ),
        Message(
            "EncodeError",
            "a lone surrogate cannot be encoded: U+D800 at index 0",
            "The text was cut inside a UTF-16 pair, or decoded with `surrogateescape`.",
            FORMATS,
        ),
        Message(
            "EncodeError",
            "… can decode but not encode: …",
            "A GGUF file whose way of splitting text is not known.",
            "../explanation/formats.md#gguf GGUF",
        ),
        Message(
            "EncodeError",
            "the tokens do not spell the text: it was normalized",
            "`offsets` needs a text that the tokenizer does not normalize.",
            FORMATS,
        ),
    ),
    "Chat templates": (
        Message(
            "ChatTemplateError",
            "no chat template: … has no chat_template.jinja, no …",
            "A base model, or a folder without its template.",
            RENDER,
        ),
        Message(
            "ChatTemplateError",
            "Conversation roles must alternate user/assistant/user/assistant/…",
            "The template called `raise_exception` with this message.",
            RENDER,
        ),
        Message(
            "ChatTemplateError",
            "the template cannot be read, line 1: …",
            "The template is broken, or uses an extension that transformers also lacks.",
            RENDER,
        ),
        Message(
            "ChatTemplateError",
            "the chat template, line 1: UndefinedError: 'list object' has no attribute 'strip'; "
            "the content of message 0 is a list of parts, and the template takes "
            "only text; …",
            "The messages are those of a client of OpenAI's API. Pass `openai=True`.",
            RENDER,
        ),
        Message(
            "ChatTemplateError",
            "messages must have at least one message",
            "The conversation is an empty list.",
            RENDER,
        ),
        Message(
            "ChatTemplateError",
            "the chat template, line 1: OverflowError: Range too big. The sandbox blocks ranges "
            "larger than MAX_RANGE (100000).",
            "The template exceeded a limit. `error.code` is `CHAT_TEMPLATE_RESOURCE_LIMIT`.",
            HOSTILE,
        ),
        Message(
            "ChatTemplateError",
            "template_kwargs must not have 'chat_template': …",
            "The variables of a request must not contain a template: it is a program.",
            HOSTILE,
        ),
    ),
    "Model folders, datasets": (
        Message(
            "TokenizerLoadError",
            "'…': expected the folder of a model, found nothing",
            "Or `is a file`: pass its folder.",
            WRONG_MODEL,
        ),
        Message(
            "SourceError",
            "no column 'tokens'; the columns are: 'token_ids'; choose one with column=",
            "Name the column of ids.",
            DATASET,
        ),
    ),
    "Warnings": (
        Message(
            "StreamdecWarning",
            "an output began with all ids of the output before it, so the engine's outputs seem "
            "to be cumulative …",
            "The text is repeated. Pass `cumulative=True`, or make the engine output only new ids.",
            ASYNC,
        ),
        Message(
            "StreamdecWarning",
            "sections: the marker '<eos>?' contains '<eos>', a special token that is skipped, so "
            "the marker is not found; pass skip_special_tokens=False",
            "Pass `skip_special_tokens=False`.",
            STOPS,
        ),
        Message(
            "StreamdecWarning",
            "…; streaming over a window of decode() instead",
            "The compiled table and the tokenizer's own `decode` differ on a sample of ids. Please "
            "report it, with the tokenizer.",
            ROUTES,
        ),
        Message(
            "StreamdecWarning",
            "…: 1 added tokens have other ids than the file says: …",
            "The library numbers added tokens differently if the ids in the file have a gap. The "
            "model may be trained with the ids of the file.",
            "findings.md Findings of a preflight",
        ),
        Message(
            "StreamdecWarning",
            "…: the ids here are those of tokenizer.json, and … in other files contradict it: …",
            "The files of the folder are of different tokenizers. transformers and engines load it "
            "in the same way; the model may be trained with the ids of the other file.",
            FORMATS,
        ),
        Message(
            "StreamdecWarning",
            "…: added tokens whose letters stand for bytes (…): … They are "
            "decoded as other text: …",
            "The text of these tokens differs between engines.",
            "findings.md Findings of a preflight",
        ),
        Message(
            "StreamdecWarning",
            "…: a GGUF file does not fully describe how a text is split; encoding is best effort",
            "Decoding is exact. Use the ids of the engine.",
            "../explanation/formats.md#gguf GGUF",
        ),
        Message(
            "StreamdecWarning",
            "the chat template has no variable 'add_generation_promt'; did you mean the option "
            "add_generation_prompt?",
            "An option that `render` does not have is a variable of the template.",
            RENDER,
        ),
        Message(
            "StreamdecWarning",
            "the environment variable STREAMDEC_FAST must be one of off, now, background, got "
            "'rust': it is ignored, and 'background' is used",
            "The default mode is used.",
            "settings.md Settings",
        ),
    ),
    "The log": (
        Message(
            "log WARNING",
            "… has no id 12345; unknown ids are counted in unknown_tokens, and not logged again",
            "Logged once for each tokenizer. Such ids are normal with padded vocabularies. "
            "Otherwise model and tokenizer do not match.",
            WRONG_MODEL,
        ),
    ),
}

INTRODUCTION = """\
# Errors and warnings

After this page you know the cause of an error, and the state after it. Find the message in
[Messages](#messages), or the class in [Classes](#classes). Import the classes from `streamdec`,
except [those of single parts](#errors-of-single-parts).

These rules hold for all classes:

- **No text is lost.** If an id fails in a call with several ids, the stream keeps its state from
  before that id. `error.chunk` is a `Chunk` with the text of the earlier ids, and
  `error.num_taken` is their number. The failed id and later ids are unread. After a bad id, the
  stream can continue with the next one; after a `RewriteError`, begin a new stream.
- **Most classes also derive from a built-in class**, which the [tree](#classes) shows. So
  `except ValueError` catches a `TokenIdError`, and `except RuntimeError` a `FinishedError`.
- **Invalid arguments** raise a plain `ValueError` or `TypeError` in the call that gets them, not
  at a later step. The message names the argument, and what was expected.

```python
from streamdec import DecodeStream, MockTokenizer, TokenIdError

stream = DecodeStream(MockTokenizer())
try:
    stream.step_batch([1, 2, -1, 3])
except TokenIdError as error:
    print(error.chunk.text, error.num_taken, error.token_id, error.index)
print(stream.step(3))
```

```text
Hello world 2 -1 2
 test
```

`stream()` and `iter_chunks()` yield the decoded text before they raise, so `error.chunk` is None.
The withheld text is `pending_text` of the object that they return. To continue with another source,
restore its `snapshot()` ([how it ends](../explanation/async.md#how-it-ends)).

This page is written by `scripts/make_errors_reference.py` from the docstrings of
`streamdec/errors.py`.

## Messages

`…` stands for a part that varies. Ids, numbers, names and quoted values are examples: search for
the words around them. The tests raise each message.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines())


@cache
def elsewhere() -> dict[str, str]:
    """Public errors of single parts: where each is defined, by ``module.name``."""
    found = {}
    for path in sorted((ROOT / "streamdec").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text("utf-8")
        if module == errors.__name__ or "Error)" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and _is_error(node):
                first = (ast.get_docstring(node) or "").split("\n\n")[0]
                found[f"{module}.{node.name}"] = " ".join(first.split())
    return found


def _is_error(node: ast.ClassDef) -> bool:
    """Whether it derives from an error of streamdec, or from AssertionError."""
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return bool(bases & {*errors.__all__, "AssertionError"}) and not node.name.startswith("_")


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for title, messages in MESSAGES.items():
        yield f"### {title}"
        yield ""
        yield "| message | class | why | more |"
        yield "|---|---|---|---|"
        for message in messages:
            target, _, name = message.page.partition(" ")
            kind = f"`{message.error}`" if " " not in message.error else message.error
            text = message.text.replace("|", "\\|")
            yield f"| `{text}` | {kind} | {message.why} | [{name}]({target}) |"
        yield ""
    yield "## Classes"
    yield ""
    yield "```text"
    yield from _tree()
    yield "```"
    yield ""
    for name in _in_order():
        yield from _class(getattr(errors, name))
    yield "## Errors of single parts"
    yield ""
    yield "They derive from `StreamdecError`, except the last, which is an `AssertionError`."
    yield ""
    yield "| class | |"
    yield "|---|---|"
    for where, told in sorted(elsewhere().items(), key=lambda item: item[0]):
        yield f"| `{_public(where)}` | {_markdown(told)} |"
    yield ""
    yield "## Others that pass through"
    yield ""
    yield "- An exception of an engine reaches the reader unchanged, after all text that is final."
    yield "  Errors of closing the engine are in its `__notes__`."
    yield "- A second reader of one stream or `TokenQueue` gets `anyio.BusyResourceError`."
    yield "- A cancellation is raised unchanged, after the engine was closed."
    yield ""


def _tree() -> Iterator[str]:
    """As it is drawn in the module's docstring."""
    drawn = (errors.__doc__ or "").split("\n\n")
    block = next(part for part in drawn if "├──" in part)
    warning = next(part for part in drawn if part.strip().startswith("StreamdecWarning"))
    for line in (*block.splitlines(), "", *warning.splitlines()):
        yield line.removeprefix("    ")


def _in_order() -> list[str]:
    """The names as they stand in the tree."""
    return re.findall(r"\b(Streamdec(?:Error|Warning)|(?<=── )\w+)", "\n".join(_tree()))


def _class(kind: type) -> Iterator[str]:
    first, *rest = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
    yield f"### {kind.__name__}"
    yield ""
    yield _markdown(first)
    yield ""
    parents = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
    yield f"- **Is a**: {parents}"
    for paragraph in rest:
        if paragraph.startswith(">>>"):  # the pages of the names have the examples
            continue
        label, _, told = paragraph.partition(": ")
        if label not in LABELS:
            raise SystemExit(f"{kind.__name__}: a paragraph begins with {label!r}, not {LABELS}")
        yield from _wrapped(f"- **{label}**: {_markdown(told)}")
    yield ""


def _public(where: str) -> str:
    """The name by which it is imported: a package that has it is enough."""
    module, _, name = where.rpartition(".")
    package = ".".join(module.split(".")[:2])
    text = (ROOT / package.replace(".", "/") / "__init__.py").read_text("utf-8")
    return f"{package}.{name}" if f'"{name}"' in text else where


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("2**32", "2³²")


def _wrapped(item: str) -> list[str]:
    return textwrap.wrap(
        item, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    TARGET.write_text(page(), "utf-8")
