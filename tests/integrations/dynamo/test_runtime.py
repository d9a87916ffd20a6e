"""In Dynamo's own runtime: its endpoints, client and contexts, in their own processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.zoo import ZOO

pytest.importorskip("dynamo.runtime", reason="not installed: nox -s dynamo")

MODEL = {
    "config.json": {"model_type": "gpt2", "n_positions": 1024, "eos_token_id": 0},
    "generation_config.json": {"eos_token_id": 0},
    "tokenizer_config.json": {
        "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"
    },
}
TEXT = "Größe 😀 and\n\nUser: never"
STOP = "\n\nUser:"


class Cluster:
    """Workers that find each other through a folder, and a caller."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self._model = folder / "model"
        self._model.mkdir()
        library = ZOO["byte_level_trained"]()
        library.save(str(self._model / "tokenizer.json"))
        for name, content in MODEL.items():
            (self._model / name).write_text(json.dumps(content))
        self._environment = {
            **os.environ,
            "DYN_FILE_KV": str(folder / "discovery"),
            "DYN_EVENT_PLANE_HOST": "127.0.0.1",
            "DYN_TCP_RPC_HOST": "127.0.0.1",
            "DYN_LOG": "error",
            "PYTHONPATH": str(ROOT),
        }
        self.workers: list[subprocess.Popen[bytes]] = []

    def add(self, *, kind: str = "plain") -> None:
        """Starts a worker."""
        arguments = [str(self._model), str(self.log), kind]
        self.workers.append(self._started("tests.integrations.dynamo.worker", *arguments))

    def _started(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=self._environment)

    def frontend(self) -> str:
        """Starts Dynamo's HTTP frontend; its URL, when it knows the model."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        address = ["--http-host", "127.0.0.1", "--http-port", str(port)]
        planes = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"]
        self.workers.append(self._started("dynamo.frontend", *address, *planes))
        url = f"http://127.0.0.1:{port}/v1"
        for _ in range(300):
            with suppress(OSError), urllib.request.urlopen(f"{url}/models") as answer:
                if json.load(answer)["data"]:
                    return url
            time.sleep(0.1)
        raise TimeoutError("the frontend knows no model")

    def leave(self, text: str) -> None:
        """Disconnect from the worker when it is silent."""
        command = [sys.executable, "-m", "tests.integrations.dynamo.caller", text]
        subprocess.run(command, cwd=ROOT, env=self._environment, check=True, timeout=60)

    def notes(self) -> list[str]:
        return [line.partition(" ")[2] for line in self.log.read_text().splitlines()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for worker in made.workers:
        worker.kill()
        worker.wait()


def test_a_client_that_disconnects_closes_a_silent_engine(cluster: Cluster) -> None:
    cluster.add()
    cluster.leave("one two three")  # a text for each token
    assert cluster.notes() == ["begins", "closed"]


def test_openais_client_at_dynamos_http_frontend(cluster: Cluster) -> None:
    openai = pytest.importorskip("openai")
    cluster.add(kind="chat")
    client = openai.OpenAI(base_url=cluster.frontend(), api_key="none", max_retries=0)
    messages = [{"role": "user", "content": TEXT}]
    chunks = client.chat.completions.create(
        model="small", messages=messages, stop=[STOP], stream=True
    )
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "Größe 😀 and"
    assert choices[-1].finish_reason == "stop"
    client.close()
