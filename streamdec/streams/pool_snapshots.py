"""The snapshot of a pool, as JSON: one entry for each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.core.snapshots import check_mapping, other_class, shown
from streamdec.errors import SnapshotError
from streamdec.streams.attribution import TokenAttribution
from streamdec.streams.stepper import Stepper

FORMAT = 1
"""The format of a snapshot of a whole pool."""


def dump(requests: Mapping[Any, Stepper]) -> dict[str, Any]:
    """Return the snapshot of a pool with these requests."""
    entries = [
        [name, request.machine.snapshot(), *_waiting(request.attribution)]
        for name, request in requests.items()
    ]
    return {"format": FORMAT, "machine": "pool", "requests": entries}


def requests_in(snapshot: Any) -> list[Any]:
    """Return the requests in the ``snapshot`` of a pool.

    A request is an id, a snapshot, and optionally the ids without a chunk.
    """
    check_mapping(snapshot)
    if snapshot.get("machine") != "pool":
        raise other_class(snapshot.get("machine"))
    if snapshot.get("format") != FORMAT:
        found = snapshot.get("format")
        raise SnapshotError(f"pool format {shown(found)} is not known; this release reads {FORMAT}")
    requests = snapshot.get("requests")
    if isinstance(requests, list) and all(map(_is_request, requests)):
        return requests
    raise SnapshotError(f"requests must be pairs of an id and a snapshot, not {shown(requests)}")


def _is_request(item: object) -> bool:
    return isinstance(item, (list, tuple)) and 2 <= len(item) <= 3


def _waiting(attribution: TokenAttribution | None) -> list[Any]:
    """Return the ids without a chunk, for the snapshot of a request."""
    if attribution is None or not attribution.waiting:
        return []
    return [[*attribution.waiting]]
