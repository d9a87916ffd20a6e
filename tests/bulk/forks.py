"""The cases in forked processes: ``python -m tests.bulk.forks FOLDER`` prints the results as JSON.

One process runs all of them, because to start one takes longer than a case.
"""

from __future__ import annotations

import json
import resource
import sys
from functools import partial
from pathlib import Path
from typing import Any

from streamdec.bulk import BulkDecoder
from streamdec.bulk.formats import FORMATS, Format
from streamdec.bulk.job import Job
from tests.bulk import peaks
from tests.bulk.making import TOKENIZER, in_a_fork, small_blocks, written

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def full_disk(folder: Path, target_format: Format, note: Path) -> None:
    """Write the error of a full disk, and the result of a second run, to ``note``."""
    small_blocks()
    target = folder / f"full.{target_format}"
    one = Job(folder / "in.parquet", target, BulkDecoder(TOKENIZER), "parquet", target_format)
    resource.setrlimit(resource.RLIMIT_FSIZE, (7_000, resource.RLIM_INFINITY))
    try:
        one.run()
    except OSError as error:
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
    left = sorted(path.name for path in folder.glob("full*"))
    done = one.run("resume")
    assert done is not None
    note.write_text(json.dumps([said, left, done.rows]))
    target.unlink()


def main(folder: Path) -> dict[str, Any]:
    """What became of full disks, and how much memory was taken."""
    for name in ("disks", "peaks"):
        (folder / name).mkdir()
    disks, note = {}, folder / "note"
    in_a_fork(partial(written, folder / "disks" / "in.parquet", "parquet", 900))
    for each in FORMATS:
        in_a_fork(partial(full_disk, folder / "disks", each, note))
        disks[each] = json.loads(note.read_text())
    return {"peaks": peaks.main(folder / "peaks"), "disks": disks}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))  # noqa: T201
