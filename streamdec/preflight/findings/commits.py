"""Rules about where a snapshot is from: the commit that a folder of the hub's cache stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamdec.preflight.preflight_report import Evidence, Finding
from streamdec.preflight.rules import RULES
from streamdec.preflight.view import View

__all__ = ["check"]

_SHA = re.compile(r"[0-9a-f]{40}")
_ANYONE = ("whoever names this commit",)

NOT_REACHABLE = RULES["COMMIT_NOT_REACHABLE"]
NOT_HEAD = RULES["COMMIT_NOT_HEAD"]
UNVERIFIED = RULES["COMMIT_UNVERIFIED"]


def check(view: View) -> Iterator[Finding]:
    """Without the network: that the commit of a folder in the hub's cache is not verified."""
    root = view.snapshot.root
    if root.parent.name == "snapshots" and _SHA.fullmatch(root.name):
        yield UNVERIFIED(
            Evidence(value=root.name, note="the commit that the folder is named after")
        )
