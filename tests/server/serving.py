"""A server on loopback, and engines that a test controls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

import streamdec
from streamdec import load_tokenizer
from streamdec.server import SamplingParams

DEMO = Path(streamdec.__file__).parent / "loading" / "demo" / "tokenizer.json"
TEMPLATE = (
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no such role: ' + m.role) }}{% endif %}"
    "<|im_start|>{{ m.role }}: {% if m.content is string %}{{ m.content }}{% endif %}"
    "{% if m.content is not string %}{% for part in m.content %}{{ part.text }}{% endfor %}"
    "{% endif %}<|im_end|>{% endfor %}"
    "{% if tools %}{% for t in tools %}[{{ t.function.name }}]{% endfor %}{% endif %}"
    "{% if shout %}!{% endif %}{% if reasoning_effort %}effort: {{ reasoning_effort }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}"
)


def tokenizer_in(folder: Path, template: str = TEMPLATE) -> Any:
    """The demo's tokenizer as a model's folder, with a chat template."""
    (folder / "tokenizer.json").write_bytes(DEMO.read_bytes())
    config = {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return load_tokenizer(folder, fast="off")  # nothing is compared


@dataclass(eq=False)
class Run:
    """One call of an engine."""

    prompt: list[int]
    params: SamplingParams
    closed: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    num_given: int = 0


class EchoEngine:
    """Gives its prompt back: so the requests say what the engine gives."""

    logprobs = True

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.runs: list[Run] = []
        self.says: Sequence[Sequence[Any]] = ()
        """The outputs of each sample, in place of the prompt."""
        self.then = "ends"
        """Or it "hangs", "breaks", or gives "errors" by its finish_reason."""
        self.is_plain = False
        """Whether it is a plain generator, for a thread."""
        self.size = 1
        """How many ids an output has."""
        self.release = threading.Event()
        """What a plain engine that hangs waits for."""

    def __call__(self, prompt: list[int], params: SamplingParams) -> Any:
        run = Run(prompt, params)
        self.runs.append(run)
        return self._plain(run) if self.is_plain else self._async(run)

    def _outputs(self, run: Run) -> Iterator[Any]:
        if self.says:
            yield from self.says[run.params.index]
            return
        for start in range(0, len(run.prompt), self.size):
            ids = run.prompt[start : start + self.size]
            run.num_given += len(ids)
            if run.params.logprobs is None:
                yield ids
            else:
                yield {"token_ids": ids, "logprobs": [(each, -0.5, {each: -0.5}) for each in ids]}
        if self.then == "breaks":
            raise ConnectionError("the secret name of the worker")
        if self.then == "errors":
            yield {"token_ids": [], "finish_reason": "error: no memory"}

    async def _async(self, run: Run) -> AsyncIterator[Any]:
        run.begun.set()
        try:
            for output in self._outputs(run):
                await asyncio.sleep(0)
                yield output
            if self.then == "hangs":
                await asyncio.Event().wait()
        finally:
            run.closed.set()

    def _plain(self, run: Run) -> Iterator[Any]:
        run.begun.set()
        try:
            yield from self._outputs(run)
            while self.then == "hangs" and not self.release.wait(0.005):
                yield []
        finally:
            run.closed.set()

    def wait_for_runs(self, count: int) -> Sequence[Run]:
        """The calls, as soon as there are this many."""
        until(lambda: len(self.runs) >= count)
        return self.runs


def until(is_so: Callable[[], bool]) -> None:
    """Waits for it; after a minute it is taken to hang."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it never was"
        time.sleep(0.005)


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """``app`` on uvicorn in its own thread; gives its address."""
    config = uvicorn.Config(app, port=0, lifespan="on", log_level="critical", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
