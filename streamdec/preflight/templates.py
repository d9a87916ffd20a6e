"""The chat templates of a snapshot, and those that a loader uses.

In: a :class:`Snapshot`. Out: :class:`Templates`: the templates of each place, and those that
transformers loads. Files replace the whole inline entry (transformers 5.24.0,
``tokenization_utils_base.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from streamdec.locks import cached_property
from streamdec.preflight.snapshot import MAX_TEMPLATES, Snapshot

FILE = "chat_template.jinja"
DIRECTORY = "additional_chat_templates"
LEGACY = "chat_template.json"
CONFIG = "tokenizer_config.json"


class Template(NamedTuple):
    """A template, its file, and its place in a JSON file."""

    text: str
    file: str
    pointer: str = ""


@dataclass
class Templates:
    """The templates of a snapshot by name; one without a name is ``default``."""

    snapshot: Snapshot

    @cached_property
    def sidecar(self) -> Template | None:
        """``chat_template.jinja``."""
        return self._file(FILE)

    @cached_property
    def additional(self) -> dict[str, Template]:
        """The files of ``additional_chat_templates`` by their stems."""
        names = [n for n in self.snapshot.names_in(DIRECTORY) if n.endswith(".jinja")]
        found = {
            n.removesuffix(".jinja"): self._file(f"{DIRECTORY}/{n}") for n in names[:MAX_TEMPLATES]
        }
        return {name: template for name, template in found.items() if template is not None}

    @cached_property
    def inline(self) -> dict[str, Template]:
        """The templates in ``tokenizer_config.json``: one, or a list of named ones."""
        return self._named(CONFIG)

    @cached_property
    def legacy(self) -> dict[str, Template]:
        """The templates in ``chat_template.json``, which only processors read."""
        return self._named(LEGACY) if LEGACY in self.snapshot.names else {}

    @cached_property
    def files(self) -> dict[str, Template]:
        """The templates in files; ``chat_template.jinja`` has the lowest precedence."""
        sidecar = {} if self.sidecar is None else {"default": self.sidecar}
        return sidecar | self.additional

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

    def _file(self, name: str) -> Template | None:
        text = self.snapshot.text(name)
        return None if text is None else Template(text, name)

    def _named(self, file: str) -> dict[str, Template]:
        value = (self.snapshot.object(file) or {}).get("chat_template")
        if isinstance(value, str):
            return {"default": Template(value, file, "/chat_template")}
        found: dict[str, Template] = {}
        for index, entry in enumerate(value[:MAX_TEMPLATES] if isinstance(value, list) else ()):
            if isinstance(entry, Mapping):
                name, text = entry.get("name"), entry.get("template")
                if isinstance(name, str) and isinstance(text, str):
                    found[name] = Template(text, file, f"/chat_template/{index}/template")
        return found
