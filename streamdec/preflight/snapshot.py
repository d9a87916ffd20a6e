"""The files of a model snapshot, each read once and up to a size; its templates.

In: a folder. Out: the bytes, the text or the JSON of a file, and for unreadable files the problem.
A snapshot is not trusted: a file may be a link to another folder, a pipe, larger than the disk, or
in another format than its name says. Nothing in a snapshot is run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from streamdec.errors import TokenizerLoadError
from streamdec.locks import cached_property
from streamdec.tokenizers.folder_files import FileError, parse_json, read_file, with_line_feeds

MAX_JSON = 2**24
"""The most bytes of a JSON file; the largest known ``tokenizer_config.json`` has 4 million."""
MAX_TEXT = 2**20
"""The most bytes of a template: four times the limit of rendering."""
LIMITS: Mapping[str, int] = {"tokenizer.json": 2**26}
"""Larger limits for single files: the largest known ``tokenizer.json`` has 34 million bytes."""
MAX_ENTRIES = 10_000
"""The most names of a folder that are read."""
MAX_TEMPLATES = 16
"""The most named templates that are read; real models have up to four."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The beginning of a surrogate, as JSON escapes it. One of a pair is harmless."""


class Snapshot:
    """A folder, read within bounds."""

    def __init__(self, path: Path) -> None:
        """Raise :class:`TokenizerLoadError` if ``path`` is not a folder."""
        self.path = path
        self._files: dict[str, bytes | FileError | None] = {}
        self._json: dict[str, dict[str, Any] | None] = {}
        try:
            self.root = Path(os.path.realpath(self.path))
            os.scandir(self.path).close()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            message = f"{str(self.path)!r}: expected the folder of a model on this machine: {why}"
            raise TokenizerLoadError(message) from error

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the folder itself."""
        return frozenset(_names(self.path))

    def names_in(self, folder: str) -> list[str]:
        """Return the sorted names in a subfolder; none if it leads outside."""
        path = self.path / folder
        is_inside = folder in self.names and self._is_within(path)
        return sorted(_names(path)) if is_inside else []

    def __contains__(self, name: str) -> bool:
        return self._file(name) is not None

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file; None for one that does not exist or cannot be read."""
        found = self._file(name)
        return found if isinstance(found, bytes) else None

    def text(self, name: str) -> str | None:
        """Return the text of a file, UTF-8 with line feeds; None if it cannot be read."""
        content = self.content(name)
        if content is None:
            return None
        try:
            return with_line_feeds(content.decode("utf-8"))
        except UnicodeDecodeError as error:
            self._files[name] = FileError("text", f"not UTF-8: byte {error.start}")
            return None

    def object(self, name: str) -> dict[str, Any] | None:
        """Return the JSON object of a file; None if it cannot be read or is no object."""
        if name not in self._json:
            self._json[name] = None
            content = self.content(name)
            if content is not None:
                try:
                    value = parse_json(content)
                    if not isinstance(value, dict):
                        raise FileError("json", "not a JSON object")
                    self._json[name] = _whole(value) if _SURROGATE.search(content) else value
                except FileError as error:
                    self._files[name] = error
        return self._json[name]

    def problems(self) -> list[tuple[str, FileError]]:
        """Return the requested files that could not be read, by name."""
        return [(n, f) for n, f in sorted(self._files.items()) if isinstance(f, FileError)]

    def _file(self, name: str) -> bytes | FileError | None:
        """Return the content of a file or its problem; None if it does not exist."""
        if name not in self._files:
            self._files[name] = self._read(name)
        return self._files[name]

    def _read(self, name: str) -> bytes | FileError | None:
        path = self.path / name
        limit = LIMITS.get(name, MAX_TEXT if name.endswith(".jinja") else MAX_JSON)
        if not os.path.lexists(path):
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
    r"(?:(?:generation_|tokenizer_|adapter_|processor_|preprocessor_|hf_quant_)?config|tokenizer"
    r"|vocab|tekken|special_tokens_map|added_tokens|chat_template)\.json|(?:vocab|merges)\.txt"
    r"|tokenizer\.model\.v.*|bpe\.codes|additional_chat_templates"
    r"|.*\.(?:jinja|model|spm|safetensors|bin|tiktoken)"
)
"""The names in the folder of a model that loaders read, in the format of Hugging Face."""
_MOST_NAMED = 20


def open_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Return the snapshot in ``path``.

    Raises TokenizerLoadError if ``path`` is not a folder, or has no file of a model.
    """
    if not os.fspath(path):  # pathlib takes "" for the working directory
        raise TokenizerLoadError("'': expected the folder of a model, got an empty path")
    snapshot = Snapshot(Path(path))
    if not any(map(_OF_A_MODEL.fullmatch, snapshot.names)):
        found = "no file of one"
        if inner := sorted(_models_in(snapshot.path)):
            more = f" and {len(inner) - _MOST_NAMED} more" if len(inner) > _MOST_NAMED else ""
            found = f"a folder with models in it: {', '.join(inner[:_MOST_NAMED])}{more}"
        elif any(name.endswith(".gguf") for name in snapshot.names):
            found = "a GGUF file ('streamdec info' reads it; preflight reads Hugging Face's format)"
        if inner or len(snapshot.names) < MAX_ENTRIES:  # else the files may be among the others
            message = f"{str(snapshot.path)!r}: expected the folder of a model, found {found}"
            raise TokenizerLoadError(message)
    return snapshot


def _models_in(folder: Path) -> Iterator[str]:
    """Yield the subfolders that are models, in the hub's cache in ``snapshots``."""
    for name in _names(folder):
        if any(map(_OF_A_MODEL.fullmatch, _names(folder / name))):
            yield name
        elif name == "snapshots" and folder.name != name:
            yield from (f"{name}/{inner}" for inner in _models_in(folder / name))


def _whole(value: Any) -> Any:
    """Return ``value`` with U+FFFD for each lone surrogate: no token contains one."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return json.loads(text.decode("utf-16", "replace"))


def _names(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in islice(entries, MAX_ENTRIES)]
    except OSError:
        return []


# --- chat templates -------------------------------------------------------------------------------

FILE = "chat_template.jinja"
DIRECTORY = "additional_chat_templates"
LEGACY = "chat_template.json"
CONFIG = "tokenizer_config.json"


class Template(NamedTuple):
    """A template, its file, and its place in a JSON file."""

    text: str
    file: str
    pointer: str = ""


class Templates:
    """The templates of a snapshot by name; one without a name is ``default``.

    Files replace the whole entry of ``tokenizer_config.json`` (transformers 5.24.0,
    ``tokenization_utils_base.py``).
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Read all places of templates."""
        self._snapshot = snapshot
        self.inline = self._named(CONFIG)
        """The templates in ``tokenizer_config.json``: one, or a list of named ones."""
        self.legacy = self._named(LEGACY)
        """The templates in ``chat_template.json``, which only processors read."""
        self.files: dict[str, Template] = {}
        """The templates in files; ``chat_template.jinja`` has the lowest precedence."""
        names = [n for n in snapshot.names_in(DIRECTORY) if n.endswith(".jinja")]
        for name in (FILE, *(f"{DIRECTORY}/{name}" for name in names[:MAX_TEMPLATES])):
            text = snapshot.text(name)
            if text is not None:
                stem = "default" if name == FILE else name[len(DIRECTORY) + 1 : -len(".jinja")]
                self.files[stem] = Template(text, name)

    @property
    def loaded(self) -> dict[str, Template]:
        """The templates of a loaded tokenizer."""
        return self.files or self.inline

    @property
    def default(self) -> Template | None:
        """The template for a conversation without tools; None without one."""
        return self.loaded.get("default") or (None if self.loaded else self.legacy.get("default"))

    @property
    def all(self) -> list[tuple[str, Template]]:
        """Every template that some loader uses, once."""
        return sorted((self.legacy | self.loaded).items())

    def _named(self, file: str) -> dict[str, Template]:
        value = (self._snapshot.object(file) or {}).get("chat_template")
        if isinstance(value, str):
            return {"default": Template(value, file, "/chat_template")}
        found: dict[str, Template] = {}
        for index, entry in enumerate(value[:MAX_TEMPLATES] if isinstance(value, list) else ()):
            if isinstance(entry, Mapping):
                name, text = entry.get("name"), entry.get("template")
                if isinstance(name, str) and isinstance(text, str):
                    found[name] = Template(text, file, f"/chat_template/{index}/template")
        return found
