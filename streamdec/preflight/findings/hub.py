"""Rules about where a snapshot is from: the commit that a folder of the hub's cache stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamdec.preflight.report import Evidence, Finding, Reference, Rule
from streamdec.preflight.view import View

__all__ = ["check"]

_HUB = Reference("huggingface_hub", "0.23", "hf_api.py")
_SHA = re.compile(r"[0-9a-f]{40}")
_ANYONE = ("whoever names this commit",)

NOT_REACHABLE = Rule(
    "COMMIT_NOT_REACHABLE",
    "error",
    "the commit is in the history of no branch, tag or pull request of the repository",
    _ANYONE,
    "What it changed was never merged, and the hub may drop it: name a commit of a branch.",
    (_HUB,),
)
NOT_HEAD = Rule(
    "COMMIT_NOT_HEAD",
    "info",
    "the commit is in the history of a branch, and not its head",
    _ANYONE,
    "Later changes are not in it: see whether they matter.",
    (_HUB,),
)
UNVERIFIED = Rule(
    "COMMIT_UNVERIFIED",
    "info",
    "nobody was asked whether the commit is reachable",
    _ANYONE,
    "Ask the hub (extra hub), with the network.",
    (_HUB,),
)


def check(view: View) -> Iterator[Finding]:
    """Without the network: that the commit of a folder in the hub's cache is not verified."""
    root = view.snapshot.root
    if root.parent.name == "snapshots" and _SHA.fullmatch(root.name):
        yield UNVERIFIED(
            Evidence(value=root.name, note="the commit that the folder is named after")
        )
