"""Snapshots that were changed on purpose: their checksum fits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any


def resealed(
    snapshot: Mapping[Any, Any], change: Mapping[Any, Any] | None = None
) -> dict[Any, Any]:
    """``snapshot`` with ``change``, and the checksum of the result.

    If the result is not JSON, it keeps the old checksum.
    """
    found = {key: value for key, value in {**snapshot, **(change or {})}.items() if key != "check"}
    try:
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):
        return {**found, "check": snapshot.get("check")}
    return {**found, "check": f"{zlib.crc32(text.encode()):08x}"}
