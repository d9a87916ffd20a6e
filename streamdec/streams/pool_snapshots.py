"""The snapshot of a pool, as JSON: an entry for each request.

An entry is an id, the snapshot of the decoder, and the ids without a chunk if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.core.snapshots import check_mapping, other_class, shown
from streamdec.core.token_ids import MAX_TOKEN_ID
from streamdec.errors import SnapshotError
from streamdec.streams.stepper import Stepper

FORMAT = 1
"""The format of a snapshot of a whole pool."""


def dump(requests: Mapping[Any, Stepper]) -> dict[str, Any]:
    """Return the snapshot of a pool with these requests."""
    entries = []
    for name, request in requests.items():
        waiting = [[*request.waiting]] if request.waiting else []
        entries.append([name, request.machine.snapshot(), *waiting])
    return {"format": FORMAT, "machine": "pool", "requests": entries}


def requests_in(snapshot: Any) -> list[Any]:
    """Return the entries in the ``snapshot`` of a pool."""
    check_mapping(snapshot)
    if snapshot.get("machine") != "pool":
        raise other_class(snapshot.get("machine"))
    if snapshot.get("format") != FORMAT:
        found = shown(snapshot.get("format"))
        raise SnapshotError(f"pool format {found} is not known; this release reads {FORMAT}")
    requests = snapshot.get("requests")
    if isinstance(requests, list) and all(map(_is_request, requests)):
        return requests
    raise SnapshotError(f"requests must be pairs of an id and a snapshot, not {shown(requests)}")


def _is_request(item: object) -> bool:
    return isinstance(item, (list, tuple)) and 2 <= len(item) <= 3


def waiting_in(parts: list[Any]) -> list[int]:
    """Return the ids without a chunk: the only one of ``parts``, if there are any."""
    waiting: Any = parts[0] if parts else []
    if isinstance(waiting, list) and all(map(_is_token_id, waiting)):
        return waiting
    raise SnapshotError(f"ids without a chunk must be a list of ids, not {shown(waiting)}")


def _is_token_id(item: object) -> bool:
    return type(item) is int and 0 <= item <= MAX_TOKEN_ID
