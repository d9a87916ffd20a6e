"""What the modules of ``findings`` see: files, tokens, stop tokens, templates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from streamdec.locks import cached_property
from streamdec.preflight.engine_versions import Engine
from streamdec.preflight.eos_sources import EosSources
from streamdec.preflight.preflight_report import Evidence
from streamdec.preflight.snapshot import Snapshot, Template, Templates
from streamdec.preflight.snapshot_tokens import Tokens
from streamdec.preflight.stop_tokens import StopTokens, stop_tokens_of
from streamdec.preflight.turns import ALL, Probes, Turns, find_turns, probe

_MOST_TEXT = 2**18
"""The most characters of templates that are searched; a longer template is over its limit."""
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)


class View:
    """A snapshot as the rules see it."""

    def __init__(self, snapshot: Snapshot, engines: tuple[Engine, ...], render: bool) -> None:
        self.snapshot, self.engines, self.render = snapshot, engines, render
        self.tokens = Tokens(snapshot)
        self.eos = EosSources(snapshot, self.tokens)
        self.templates = Templates(snapshot)

    @cached_property
    def stop(self) -> dict[str, StopTokens]:
        """The effective stop tokens of each engine, by its name with the version."""
        return {str(engine): stop_tokens_of(self.eos, engine) for engine in self.engines}

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """The effective stop tokens of all engines."""
        return frozenset().union(*(found.ids for found in self.stop.values()))

    @cached_property
    def template_text(self) -> str:
        """The text of all templates, without comments."""
        text = "\n".join(t.text[:_MOST_TEXT] for _, t in self.templates.all)
        return _COMMENT.sub("", text[:_MOST_TEXT])

    def written_in_template(self, tokens: Iterable[str]) -> set[str]:
        """Return the tokens that occur in ``template_text``, except white space."""
        return {token for token in tokens if token.strip() and token in self.template_text}

    def probe(self, template: Template | None, conversations: Iterable[str]) -> Probes:
        """Parse a template, and render conversations with it if that is asked for."""
        if template is None:
            return Probes(unavailable="there is no chat template that can be read")
        roles = {name: role.text for name, role in self.tokens.roles.items()}
        return probe(template.text, roles, conversations=conversations if self.render else ())

    @cached_property
    def probes(self) -> Probes:
        """The default template's renderings of small conversations."""
        return self.probe(self.templates.default, ALL)

    @cached_property
    def markers(self) -> dict[str, int]:
        """The tokens that may begin or end a turn: texts to ids."""
        # Some tokenizers have line feeds and runs of spaces among their added tokens.
        markers = {text: i for i, (text, _) in self.tokens.added.items() if text.strip()}
        for role in self.tokens.roles.values():
            found = self.tokens.id_of(role.text)
            if found is not None:
                markers.setdefault(role.text, found)
        return markers

    @cached_property
    def turns(self) -> Turns:
        """The markers that close and open turns."""
        return find_turns(self.probes, self.markers, self.stop_ids)

    def not_stopping_at(self, tokens: Mapping[int, str]) -> list[StopTokens]:
        """Return the engines' stop tokens that have none of ``tokens``.

        ``tokens`` maps ids to texts. An engine is left out if it also stops at an unknown id, which
        may be that of one of them.
        """
        return [
            found
            for found in self.stop.values()
            if found.ids.isdisjoint(tokens)
            and {source.text for source in found.unresolved}.isdisjoint({None, *tokens.values()})
        ]

    @property
    def template_place(self) -> tuple[str, str]:
        """The file and pointer of the template that findings point at; empty without one."""
        template = self.templates.default or next((t for _, t in self.templates.all), None)
        return ("", "") if template is None else (template.file, template.pointer)

    @property
    def mistral_files(self) -> list[str]:
        """The files of Mistral's own tokenizers."""
        beginnings = ("tekken.json", "tokenizer.model.v")
        return [name for name in self.snapshot.names if name.startswith(beginnings)]

    def role(self, name: str, ids: Iterable[int]) -> Evidence:
        """Return the declaration of a role as evidence, with the ids of its token."""
        role = self.tokens.roles[name]
        file, note = (role.source, "") if role.pointer else ("", f"default of {role.source}")
        return Evidence(file, role.pointer, value=role.text, ids=self.ids(ids), note=note)

    def ids(self, ids: Iterable[int]) -> dict[int, str | None]:
        """Return ids with their texts."""
        return {i: self.tokens.text_of(i) for i in sorted(set(ids))}
