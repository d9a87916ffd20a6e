"""The files of a model snapshot, each read once, and up to a size.

In: a folder. Out: the bytes, the text or the JSON of a file, and for unreadable files the problem.
A snapshot is not trusted: a file may be a link to another folder, a pipe, larger than the disk, or
in another format than its name says. Nothing in a snapshot is run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamdec.errors import TokenizerLoadError
from streamdec.locks import cached_property
from streamdec.tokenizers.folder_files import FileError, parse_json, read_file, with_line_feeds

MAX_JSON = 2**24
"""The most bytes of a JSON file; the largest known ``tokenizer_config.json`` has 4 million."""
MAX_TEXT = 2**20
"""The most bytes of a template: four times the limit of rendering."""
LIMITS: Mapping[str, int] = {"tokenizer.json": 2**26}
"""Larger limits for single files: the largest known ``tokenizer.json`` has 34 million bytes."""
TOKEN_FILES = frozenset(
    ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
)
"""The files that contain texts of tokens."""
MAX_ENTRIES = 10_000
"""The most names of a folder that are read."""
MAX_SUBFOLDERS = 1_000
"""The most names of a folder without a model, and of its subfolders, that are read."""
MAX_TEMPLATES = 16
"""The most named templates that are read; real models have up to four."""

_LFS_SIZE = 1024
"""The most bytes of a pointer (the specification of git-lfs)."""
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
"""A lone surrogate, as JSON escapes it."""


@dataclass
class Snapshot:
    """A folder, read within bounds."""

    path: Path
    _files: dict[str, bytes | FileError | None] = field(default_factory=dict)
    _json: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise :class:`TokenizerLoadError` if ``path`` is not a folder."""
        self.path = Path(self.path)
        told = f"{str(self.path)!r}: expected the folder of a model"
        try:
            self.root = Path(os.path.realpath(self.path))
            os.scandir(self.path).close()
        except FileNotFoundError:
            raise TokenizerLoadError(f"{told}, found nothing") from None
        except NotADirectoryError:
            raise TokenizerLoadError(f"{told}, found a file") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise TokenizerLoadError(f"{told}: {why}") from error

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the folder itself."""
        return frozenset(_names(self.path, MAX_ENTRIES))

    def names_in(self, folder: str) -> list[str]:
        """Return the sorted names in a subfolder; none if it leads outside."""
        path = self.path / folder
        is_inside = folder in self.names and self._is_within(path)
        return sorted(_names(path, MAX_ENTRIES)) if is_inside else []

    def __contains__(self, name: str) -> bool:
        return self._file(name) is not None

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file; None for one that does not exist or cannot be read."""
        found = self._file(name)
        return found if isinstance(found, bytes) else None

    def text(self, name: str) -> str | None:
        """Return a file as Python reads text: UTF-8, with line feeds.

        Returns None if it cannot be read.
        """
        content = self.content(name)
        if content is None:
            return None
        try:
            return with_line_feeds(content.decode("utf-8"))
        except UnicodeDecodeError as error:
            self._files[name] = FileError("text", f"not UTF-8: byte {error.start}")
            return None

    def object(self, name: str) -> dict[str, Any] | None:
        """Return the JSON object of a file, by Python's own parser.

        Returns None if it cannot be read or is not an object.
        """
        if name not in self._json:
            try:
                self._json[name] = self._parse(name)
            except FileError as error:
                self._files[name], self._json[name] = error, None
        found: dict[str, Any] | None = self._json[name]
        return found

    def find_pointers(self) -> None:
        """Look for pointers of git-lfs among all small files, in place of weights."""
        for name in self.names - self._files.keys():
            path = self.path / name
            try:
                # The size of the target: weights in the hub's cache are links.
                is_small = self._is_within(path) and path.stat().st_size <= _LFS_SIZE
            except OSError:
                continue
            found = self._read(name) if is_small else None
            if isinstance(found, FileError) and found.problem == "lfs":
                self._files[name] = found

    def problems(self) -> list[tuple[str, FileError]]:
        """Return the requested files that could not be read, by name."""
        return [(n, f) for n, f in sorted(self._files.items()) if isinstance(f, FileError)]

    def _parse(self, name: str) -> dict[str, Any] | None:
        content = self.content(name)
        if content is None:
            return None
        value = parse_json(content)
        if not isinstance(value, dict):
            raise FileError("json", f"an object was expected, not {_kind(value)}")
        is_of_tokens = name in TOKEN_FILES and _LONE_SURROGATE.search(content.decode("utf-8"))
        return _whole(value) if is_of_tokens else value

    def _file(self, name: str) -> bytes | FileError | None:
        """Return the content of a file or its problem; None if it does not exist."""
        if name not in self._files:
            self._files[name] = self._read(name)
        return self._files[name]

    def _read(self, name: str) -> bytes | FileError | None:
        path = self.path / name
        limit = LIMITS.get(name, MAX_TEXT if name.endswith(".jinja") else MAX_JSON)
        try:
            os.lstat(path)
        except (OSError, ValueError):
            return None
        if not self._is_within(path):
            return FileError("outside", "a link out of the folder")
        try:
            return read_file(path, limit)
        except FileError as error:
            return error

    def _is_within(self, path: Path) -> bool:
        """Return whether ``path`` leads into the folder or the blobs of its hub cache."""
        real = Path(os.path.realpath(path))
        return real.is_relative_to(self.root) or (
            self.root.parent.name == "snapshots"
            and real.is_relative_to(self.root.parent.parent / "blobs")
        )


_OF_A_MODEL = re.compile(
    r"(?:config|generation_config|tokenizer|tokenizer_config|vocab|tekken|adapter_config)\.json"
    r"|vocab\.txt|.*\.(?:jinja|model|safetensors|bin|gguf|tiktoken)"
)
"""Files that the folder of a model has."""
_MOST_NAMED = 20


def open_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Return the snapshot in ``path``.

    Raises TokenizerLoadError if ``path`` is not a folder, or if only its subfolders are models.
    """
    if not os.fspath(path):  # pathlib takes "" for the working directory
        raise TokenizerLoadError("'': expected the folder of a model, got an empty path")
    snapshot = Snapshot(Path(path))
    if not any(map(_OF_A_MODEL.fullmatch, snapshot.names)):
        inner = sorted(_models_in(snapshot.path))
        if inner:
            more = f" and {len(inner) - _MOST_NAMED} more" if len(inner) > _MOST_NAMED else ""
            raise TokenizerLoadError(
                f"{str(snapshot.path)!r}: expected the folder of a model, found a folder with "
                f"models in it: {', '.join(inner[:_MOST_NAMED])}{more}"
            )
    return snapshot


def _models_in(folder: Path) -> Iterator[str]:
    """Yield the subfolders that are models, in the hub's cache in ``snapshots``."""
    for name in _names(folder, MAX_SUBFOLDERS):
        if any(map(_OF_A_MODEL.fullmatch, _names(folder / name, MAX_SUBFOLDERS))):
            yield name
        elif name == "snapshots" and folder.name != name:
            yield from (f"{name}/{inner}" for inner in _models_in(folder / name))


def _whole(value: Any) -> Any:
    """Return ``value`` with U+FFFD for each lone surrogate.

    No token can contain a lone surrogate.
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return json.loads(text.decode("utf-16", "replace"))


def _names(path: Path, most: int) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            for _, entry in zip(range(most), entries, strict=False):
                yield entry.name
    except OSError:
        return


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
