"""All that is tried in forks: ``python -m tests.bulk.forks FOLDER SEED COUNT`` prints it as JSON.

One process for all of them, as to begin one takes longer than what is tried.
"""

from __future__ import annotations

import json
import resource
import sys
from functools import partial
from pathlib import Path
from typing import Any

from streamdec.bulk import job
from streamdec.bulk.formats import FORMATS, Format
from tests.bulk import killing, peaks
from tests.bulk.killing import ended, forked, job_of, small_blocks, written

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def full_disk(folder: Path, pair: tuple[Format, Format], note: Path) -> None:
    """Notes what is said when the system refuses to write more, and that it can be resumed."""
    small_blocks()
    job.VALUES_OF_PART = 700
    one = job_of(folder, pair, "full")
    resource.setrlimit(resource.RLIMIT_FSIZE, (7_000, resource.RLIM_INFINITY))
    try:
        one.run()
    except OSError as error:
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
    left = one.target.exists() or (one.parts / "writing").exists()
    done = one.run("resume")
    assert done is not None
    note.write_text(json.dumps([said, left, done.rows]))


def main(folder: Path, seed: int, count: int) -> dict[str, Any]:
    """What became of kills, of full disks, and how much memory was taken."""
    for name in ("kills", "disks", "peaks"):
        (folder / name).mkdir()
    disks, note = {}, folder / "note"
    assert ended(forked(partial(written, folder / "disks" / "in.parquet", "parquet", 900)))
    for each in FORMATS:
        assert ended(forked(partial(full_disk, folder / "disks", ("parquet", each), note)))
        disks[each] = json.loads(note.read_text())
    found = {"peaks": peaks.main(folder / "peaks"), "disks": disks}
    return found | killing.main(folder / "kills", seed, count)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:]))))  # noqa: T201
