"""Write ``tests/loading/data/matrix.jsonl``: how each tokenizer class is loaded.

    PYTHONPATH=. python scripts/make_tokenizer_matrix.py

Needs the newest transformers, and the libraries that its tokenizers need. Each line is a class,
with the state of each form of a made folder, without transformers: ``equal``, ``warned`` or
``refused``, and the reason. Where streamdec loads the same tokenizer, the line has digests of what
``AutoTokenizer`` makes. The script fails if streamdec silently loads another tokenizer.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers
from make_class_goldens import loaded
from make_transformers_facts import TARGET

from tests.support.made_folders import FACTS, FORMS, digest, state_of, write_folder

MATRIX = Path(__file__).resolve().parent.parent / "tests" / "loading" / "data" / "matrix.jsonl"
UNKNOWN = ("NobodyKnowsTokenizer", "NobodyKnowsTokenizerFast")


def names() -> list[str]:
    """Return the names of all classes of transformers 4 and 5, and some that nobody knows."""
    facts = json.loads(TARGET.read_text("utf-8"))
    return sorted({*facts["classes"], *facts["classes_of_v4"], *UNKNOWN})


def kind_of(name: str) -> str:
    """Return the kind of model that the class builds; BPE if it builds none."""
    auto = importlib.import_module("transformers.models.auto.tokenization_auto")
    try:
        cls = auto.tokenizer_class_from_name(name)
        kind = getattr(getattr(cls, "model", None), "__name__", "BPE")
    except (ImportError, AttributeError):  # a library is missing
        return "BPE"
    return kind if kind in FACTS["files"] else "BPE"


def row_of(name: str) -> dict[str, Any]:
    """Return the line of a class."""
    row: dict[str, Any] = {"class": name, "kind": kind_of(name)}
    row |= {"states": {}, "why": {}, "theirs": {}}
    for form in FORMS:
        with TemporaryDirectory() as place:
            folder = Path(place)
            write_folder(folder, name, form, row["kind"])
            try:
                made = loaded(folder)
            except BaseException as error:  # noqa: BLE001 (not a tokenizer, or a panic)
                theirs, why = None, type(error).__name__
            else:
                drawn = made["ids"][len(FACTS["texts"]) :]
                keys = ("roles", "ids", "with_special", "text", "skipped")
                theirs = {key: digest(made[key]) for key in keys} | {"drawn": drawn}
            state, reason = state_of(folder, theirs)
            row["states"][form] = state
            if reason:
                row["why"][form] = reason
            if state in ("equal", "SILENT"):
                row["theirs"][form] = theirs or why
    return row


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rows = [row_of(name) for name in names()]
    compact: Any = {"separators": (",", ":"), "ensure_ascii": False}
    about = {"transformers": transformers.__version__}
    lines = [json.dumps(row, **compact) for row in (about, *rows)]
    MATRIX.write_text("\n".join(lines) + "\n", "utf-8")
    silent = [
        f"{row['class']}: {form}"
        for row in rows
        for form, state in row["states"].items()
        if state == "SILENT"
    ]
    if silent:
        sys.exit("loaded silently with another result:\n" + "\n".join(silent))


if __name__ == "__main__":
    main()
