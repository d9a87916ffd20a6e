"""Says which names of the public API have no type that every checker reads alike.

``pyright --outputjson --ignoreexternal --verifytypes streamdec > FILE``, then
``python scripts/check_public_types.py FILE``. Pyright counts each module without an underscore as
public; here it is what ``tests/support/public_api.py`` names, with the classes of streamdec from
which that inherits. Exit status 1 if there are any.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.public_api import DOORS, public_names


def homes() -> Iterator[str]:
    """The full names of public classes, functions and data, where they are defined."""
    for door in DOORS:
        for public, value in public_names(door).items():
            yield f"{door}.{public}"
            for each in inspect.getmro(value) if inspect.isclass(value) else [value]:
                if getattr(each, "__module__", "").startswith("streamdec"):
                    yield f"{each.__module__}.{getattr(each, '__qualname__', public)}"


def main(file: Path) -> int:
    """Prints the score, and what is missing."""
    report = json.loads(file.read_text("utf-8"))["typeCompleteness"]
    public = set(homes())
    counted = unknown = 0
    for symbol in report["symbols"]:
        name = symbol["name"]
        if name not in public and name.rpartition(".")[0] not in public:
            continue
        counted += 1
        if symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]:
            continue
        unknown += 1
        print(name, *(f"  {each['message']}" for each in symbol["diagnostics"][:2]), sep="\n")
    print(f"of {counted} public names {counted - unknown} have a type that all checkers read alike")
    print(f"of all that pyright takes for public: {report['completenessScore']:.1%}")
    return 1 if unknown or not counted else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
