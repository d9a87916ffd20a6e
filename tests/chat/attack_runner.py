"""Renders attacks in this process, each in a fork of it, and says what they cost.

In: on standard input, JSON: ``names`` of attacks (none: all), and ``limits`` other than those that
hold anyway. Out: for each attack a line of JSON. A program of its own, so that an attack that wins
takes nothing with it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from typing import Any

from streamdec.chat._guard import guarded_environment
from streamdec.chat._meter import LIMITS
from streamdec.chat.environment import make_environment
from streamdec.chat.rendering import render_once
from streamdec.errors import ChatTemplateError
from tests.chat.attacks import ATTACKS

MEMORY = 2 << 30
"""Bytes that an attack that wins may take from the machine."""
PATIENCE = 60
"""Seconds after which an attack has won."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    asked = json.load(sys.stdin)
    limits = replace(LIMITS, **asked["limits"])
    environment = guarded_environment(make_environment("classic"), limits)
    for name in asked["names"] or ATTACKS:
        sys.stdout.write(json.dumps({"name": name, **in_fork(name, environment)}) + "\n")
        sys.stdout.flush()


def in_fork(name: str, environment: Any) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(PATIENCE)
        os.write(write, json.dumps(attacked(ATTACKS[name], environment)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        told = answer.read()
    status = os.waitpid(child, 0)[1]
    return dict(json.loads(told)) if told else {"error": f"died: {status}"}


def attacked(template: str, environment: Any) -> dict[str, Any]:
    """How a rendering of ``template`` ended: the kind of error, its code, seconds and megabytes."""
    context = {"messages": [{"role": "user", "content": "hi"}], "tools": None}
    before = json.dumps(context)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.thread_time()
    error = code = None
    try:
        render_once(template, context, profile="classic", environment=environment)
    except ChatTemplateError as raised:
        error, code = str(raised), raised.code
    except BaseException as raised:  # noqa: BLE001 - it is what the test looks for
        error, code = repr(raised), "none of ours"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    return {
        "error": error,
        "code": code,
        "seconds": time.thread_time() - start,
        "megabytes": grown / (1 << 20 if sys.platform == "darwin" else 1 << 10),
        "unchanged": json.dumps(context) == before,
    }


if __name__ == "__main__":
    main()
