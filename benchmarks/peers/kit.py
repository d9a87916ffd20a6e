"""Read the code of the peers: wheels in the user's folder, from whose files parts are run."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from tokenizers import Tokenizer

from streamdec.locks import cached_property

COMMAND = "python -m benchmarks.peers"
WHEELS = {"vllm": "0.33.0", "sglang": "0.5.23", "mlx-lm": "0.32.2"}
"""Packages that are only read, and the versions to install. Other versions are also accepted."""
SITE = "site"
"""The part of the folder where transformers is installed, with what it needs."""

_IMPORTED = {*sys.stdlib_module_names, "tokenizers"} - {"__future__"}


class PeerMissingError(Exception):
    """A peer is missing, has unexpected code, or does not support a case."""


class Kit:
    """A folder with the peers, as ``python -m benchmarks.peers FOLDER`` fills it."""

    def __init__(self, folder: Path, *, names_specials: bool = False) -> None:
        self.folder = folder
        self._names_specials = names_specials
        """Whether transformers' tokenizers get the list of special tokens. In the benchmark they
        do not: they would look all of them up at each call, and engines keep them."""
        self._tokenizers: dict[Path, Any] = {}
        self._defined: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}

    def wheel(self, package: str) -> Path:
        """The wheel of ``package``; the last by name if there are several."""
        found = sorted(self.folder.glob(f"{package.replace('-', '_')}-*.whl"))
        if not found:
            raise self._missing(package)
        return found[-1]

    def _missing(self, package: str) -> PeerMissingError:
        return PeerMissingError(f"{package} is not in the folder; to fetch it: {COMMAND} FOLDER")

    def definitions(
        self, package: str, path: str, names: Iterable[str], **given: Any
    ) -> dict[str, Any]:
        """Return the names that ``path`` in a wheel defines, run once. See :func:`definitions`."""
        key = package, path, (*names,)
        if key not in self._defined:
            self._defined[key] = self._run(self.wheel(package), path, key[2], given)
        return self._defined[key]

    def _run(
        self, wheel: Path, path: str, names: Iterable[str], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            with ZipFile(wheel) as archive:
                source = archive.read(path).decode()
            return definitions(source, names, given)
        except (KeyError, SyntaxError, BadZipFile) as error:
            raise PeerMissingError(f"{wheel.name} is another than known here: {error}") from None

    # --- transformers, which is installed and not read

    @cached_property
    def transformers(self) -> Any:
        """Return the module ``transformers``, from the environment or else from the folder."""
        site = str(self.folder / SITE)
        if site not in sys.path:
            sys.path.append(site)
        try:
            module = importlib.import_module("transformers")
        except ImportError:
            raise self._missing("transformers") from None
        module.logging.set_verbosity_error()
        # It would import torch in the middle of a text.
        with suppress(ImportError):
            importlib.import_module("torch")
        # Both are large: no later collection shall go through them while something is timed.
        gc.collect()
        gc.freeze()
        return module

    def tokenizer(self, path: Path) -> Any:
        """Return the tokenizer object of a ``tokenizer.json`` that the peers use."""
        if path not in self._tokenizers:
            make, special = self.transformers.PreTrainedTokenizerFast, list[str]()
            if self._names_specials:
                added = Tokenizer.from_file(str(path)).get_added_tokens_decoder().values()
                special = [each.content for each in added if each.special]
            self._tokenizers[path] = make(tokenizer_file=str(path), extra_special_tokens=special)
        return self._tokenizers[path]

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions in the folder, or in the environment."""
        known = {name: self._version(name) for name in (*WHEELS, "transformers")}
        return {name: version for name, version in known.items() if version}

    def _version(self, package: str) -> str | None:
        if package in WHEELS:
            try:
                return self.wheel(package).name.split("-")[1]
            except PeerMissingError:
                return None
        path = [*sys.path, str(self.folder / SITE)]
        found = metadata.distributions(name=package, path=path)
        return next((each.version for each in found), None)


def definitions(
    source: str, names: Iterable[str], given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Run the definitions of ``names`` in ``source``, and nothing else.

    Args:
        source: A module's text.
        names: Functions, classes and constants of it. ``Class.method`` selects a method, and makes
            a class of the selected methods, without bases and decorators.
        given: Other names that the definitions use.

    Returns:
        The namespace. It also has what ``source`` imports from the standard library and from
        ``tokenizers``. Other imports are left out. Annotations are not evaluated.

    Raises:
        KeyError: If ``source`` does not define one of the names.
        SyntaxError: If this interpreter cannot parse it.
    """
    wanted: dict[str, set[str]] = {}
    for name in names:
        head, _, method = name.partition(".")
        wanted.setdefault(head, set()).update([method] if method else [])
    tree = ast.parse(source)
    tree.body = [*_imports(tree), *_defined(tree, wanted)]
    flags = annotations.compiler_flag
    namespace: dict[str, Any] = {**(given or {}), "__name__": __name__}
    exec(compile(tree, "<peer>", "exec", flags, dont_inherit=True), namespace)
    return namespace


def _imports(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            node.names = [name for name in node.names if _is_imported(name.name)]
            if node.names:
                yield node
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_imported(node.module):
            yield node


def _is_imported(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _IMPORTED


def _defined(tree: ast.Module, wanted: Mapping[str, set[str]]) -> list[ast.stmt]:
    """Return the definitions in the order of the source; of a class, the selected methods."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        name = _name(node)
        if name in wanted:
            found[name] = node
    if absent := wanted.keys() - found.keys():
        raise KeyError(", ".join(sorted(absent)))
    for name, methods in wanted.items():
        node = found[name]
        if methods and isinstance(node, ast.ClassDef):
            node.bases, node.keywords, node.decorator_list = [], [], []
            node.body = [each for each in node.body if _name(each) in methods]
            if absent := methods - {*map(_name, node.body)}:
                raise KeyError(", ".join(f"{name}.{each}" for each in sorted(absent)))
    return [*found.values()]


def _name(node: ast.stmt) -> str:
    """The name that a statement defines; "" if it does not define one name."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names[0] if len(names) == len(targets) == 1 else ""
