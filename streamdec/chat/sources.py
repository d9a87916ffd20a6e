"""The search for a model's chat template, and the choice among several.

In: the folder of a snapshot, a GGUF file, or a caller's template. Out: one template or
several with names, and an :class:`Origin` with the place and the reason. The first
of these counts, as in transformers: the caller's, ``chat_template.jinja`` with
``additional_chat_templates/``, ``chat_template`` in ``tokenizer_config.json``,
``chat_template.json``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamdec.backends.gguf_metadata import read_metadata
from streamdec.errors import ChatTemplateError, TokenizerLoadError
from streamdec.folders.folder_tokens import read_folder
from streamdec.folders.tokenizer_config import CONFIG, read_object
from streamdec.tokenizers.folder_files import FileError, read_file, with_line_feeds

Templates = str | Mapping[str, str] | Sequence[Mapping[str, str]]
"""One template, or several with names: a mapping, or a list of ``{"name": …, "template": …}``."""

FILE = "chat_template.jinja"
FOLDER = "additional_chat_templates"
LEGACY = "chat_template.json"
_GGUF = "tokenizer.chat_template"
_DEFAULT = "default"
_MAX_TEMPLATE = 2**20
"""The most bytes of a template file; the largest of a real model has 100,000."""
_PATH = re.compile(r"[^{}\n]*([/\\][^{}\n]*|\.(jinja2?|j2|json|txt|tpl|template))")
"""A text that looks like a path. A template has braces or several lines."""


@dataclass(frozen=True)
class Origin:
    """The place of a template, and the reason for choosing it.

    >>> from streamdec import load_tokenizer
    >>> origin = load_tokenizer("demo").get_chat_template().origin
    >>> origin.kind, origin.path.name
    ('tokenizer config', 'tokenizer_config.json')
    """

    kind: str
    """``"argument"``, ``"jinja file"``, ``"tokenizer config"``, ``"legacy json"``, or
    ``"gguf"``."""
    path: Path | None
    """The file; the folder if the templates are from several; None if it was given as text."""
    reason: str
    """The reason for choosing it, in a sentence."""

    def __str__(self) -> str:
        return f"{self.path or 'a text'}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """Templates and their origin."""

    templates: str | dict[str, str] | None
    origin: Origin


# --- a caller's template --------------------------------------------------------------------------


def named(templates: object, what: str = "a chat template") -> str | dict[str, str]:
    """Check ``templates`` and return a str or a dict.

    Raises :class:`ChatTemplateError` for other values.
    """
    if isinstance(templates, str):
        return templates
    expected = f"{what} must be a str, a mapping of names to str or a list of objects"
    expected += " with 'name' and 'template'"
    if isinstance(templates, list | tuple):
        try:
            templates = {one["name"]: one["template"] for one in templates}
        except (TypeError, KeyError) as error:
            raise ChatTemplateError(expected) from error
    if not isinstance(templates, Mapping):
        raise ChatTemplateError(f"{expected}, not {type(templates).__name__}")
    for name, text in templates.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ChatTemplateError(f"{what}: the template {name!r:.80} must be a str")
    return dict(templates)


def given(template: Templates | os.PathLike[str]) -> Found:
    """Return a caller's template: a text, the path of a file, or several templates.

    A str is a path if the file exists, otherwise a text. Raises :class:`ChatTemplateError` if the
    file cannot be read, and for a text that looks like the path of a missing file.
    """
    # Unlike pathlib's method, os.path.isfile raises nothing for a long text.
    if isinstance(template, str) and not os.path.isfile(template):  # noqa: PTH113
        if _PATH.fullmatch(template):
            why = f"chat_template must be a template or the path of a file, not {template!r:.200}"
            raise ChatTemplateError(why)
    elif isinstance(template, str | os.PathLike):
        path = Path(os.fsdecode(template))
        return Found(_text_of(path), Origin("argument", path, "given by the caller"))
    return given_as_text(template)


def given_as_text(template: Templates | None) -> Found:
    """Return a caller's templates that are texts. Raises :class:`ChatTemplateError`."""
    if template is None:
        return nothing("none was given")
    return Found(named(template), Origin("argument", None, "given by the caller"))


# --- a snapshot -----------------------------------------------------------------------------------


def from_snapshot(folder: Path) -> Found:
    """Return the templates in the ``folder`` of a snapshot; without any, the reason.

    Files after the first with a template are not read. Raises :class:`ChatTemplateError` for a file
    that cannot be read.
    """
    config = "its chat_template, because there is no template file"
    legacy = "the legacy file of transformers' processors, because there is no other template"
    return (
        _of_files(folder)
        or _of_object(folder, CONFIG, "tokenizer config", config)
        or _of_object(folder, LEGACY, "legacy json", legacy)
        or nothing(
            f"{str(folder)!r} has no {FILE}, no {FOLDER}/*.jinja, no chat_template in {CONFIG} "
            f"and no {LEGACY}"
            if folder.is_dir()
            else f"{str(folder)!r} is not a folder"
        )
    )


def nothing(reason: str) -> Found:
    """Return that there is no template, and the reason, for an error."""
    return Found(None, Origin("argument", None, f"{reason}; pass chat_template= (--template)"))


def _of_files(folder: Path) -> Found | None:
    templates: dict[str, str] = {}
    main = folder / FILE
    if main.is_file():
        templates[_DEFAULT] = _text_of(main)
    more = folder / FOLDER
    files = sorted(path for path in more.glob("*.jinja") if path.is_file())
    for path in files:
        templates[path.name.removesuffix(".jinja")] = _text_of(path)
    if not templates:
        return None
    is_one = list(templates) == [_DEFAULT]
    path = folder if not is_one else files[0] if files else main
    origin = Origin("jinja file", path, "template files take precedence over JSON")
    return Found(templates[_DEFAULT] if is_one else templates, origin)


def _of_object(folder: Path, name: str, kind: str, reason: str) -> Found | None:
    """Return the templates under ``chat_template`` in the JSON file ``name``."""
    try:
        template = (read_object(folder, name) or {}).get("chat_template")
    except TokenizerLoadError as error:
        raise ChatTemplateError(str(error)) from error
    if template is None:
        return None
    path = folder / name
    return Found(named(template, f"{str(path)!r}: chat_template"), Origin(kind, path, reason))


def from_gguf(path: Path) -> Found | None:
    """Return the templates in the metadata of a GGUF file; None without any.

    ``tokenizer.chat_template`` is the default. Others have their name after a second dot.
    """
    try:
        metadata = read_metadata(path, lambda key: key == _GGUF or key.startswith(f"{_GGUF}."))
    except TokenizerLoadError as error:
        raise ChatTemplateError(str(error)) from error
    templates = {
        key.removeprefix(_GGUF).removeprefix(".") or _DEFAULT: text
        for key, text in metadata.items()
        if isinstance(text, str)
    }
    if not templates:
        return None
    origin = Origin("gguf", path, f"{_GGUF} in its metadata")
    return Found(templates[_DEFAULT] if list(templates) == [_DEFAULT] else templates, origin)


# --- special tokens -------------------------------------------------------------------------------


def special_tokens_of(folder: Path) -> dict[str, str]:
    """Return the special tokens that a template of the snapshot sees, by their names.

    They are those with a role, other keys that end in ``_token``, and named extra tokens, as
    loading a tokenizer resolves them. Raises :class:`ChatTemplateError` for a malformed file.
    """
    try:
        return read_folder(folder).texts
    except TokenizerLoadError as error:
        raise ChatTemplateError(str(error)) from error


# --- files ----------------------------------------------------------------------------------------


def _text_of(path: Path) -> str:
    """Return the template in ``path``, which is UTF-8, with line feeds."""
    try:
        return with_line_feeds(read_file(path, _MAX_TEMPLATE).decode("utf-8"))
    except (FileError, UnicodeDecodeError) as error:
        raise ChatTemplateError(f"{str(path)!r}: {error}") from error
