"""Names of models that stand for other names or paths, by a table of the user.

In: a name. Out: the path or name that the table has for it, or the name itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from streamdec.errors import TokenizerLoadError
from streamdec.folders.tokenizer_config import read_object

VARIABLE = "STREAMDEC_MODELS"
"""The environment variable with the path of a JSON object: names to paths or names."""


def looked_up(name: str, models: Mapping[str, str | os.PathLike[str]] | None) -> str:
    """Return what ``models`` has for ``name``; without such an entry, ``name``.

    If ``models`` is None, the table is that of the environment. Raises
    :class:`~streamdec.TokenizerLoadError` if it cannot be read, or if the value is not a path.
    """
    given = os.environ.get(VARIABLE)
    if models is None and given:
        models = read_object(Path(given).parent, Path(given).name)
        if models is None:
            raise TokenizerLoadError(f"{VARIABLE} names {given!r:.200}, which is not a file")
    value: object = (models or {}).get(name, name)
    if not isinstance(value, (str, os.PathLike)) or value == "":
        raise TokenizerLoadError(f"the table of models has {value!r:.80} for {name!r:.80}")
    return os.fsdecode(value)
