"""The chat template of a tokenizer, read on first use.

In: the tokenizer's folder or file. Out: a :class:`~streamdec.chat.template.ChatTemplate`. Making a
:class:`TokenizerChat` reads no file and does not need jinja2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamdec.backends.gguf_metadata import read_metadata
from streamdec.chat import sources
from streamdec.chat._jinja import within
from streamdec.chat.sources import Found
from streamdec.encoding import SpecialTokens
from streamdec.errors import ChatTemplateError, TokenizerLoadError
from streamdec.folders.tokenizer_config import ROLES
from streamdec.locks import Lock

if TYPE_CHECKING:
    from streamdec.chat.template import ChatTemplate
    from streamdec.tokenizers._chat import NewTemplate

_OPTIONS = ("profile", "now", "isolate", "special_tokens")


class TokenizerChat:
    """The place of a tokenizer's template.

    Args:
        folder: The snapshot; None for a tokenizer that was loaded by the name of an encoding.
        gguf: The GGUF file, if the tokenizer is one.
        template: The caller's template, which takes precedence over all files.

    Raises :class:`ChatTemplateError` if ``template`` cannot be read.
    """

    def __init__(
        self, folder: Path | None, *, gguf: Path | None = None, template: NewTemplate | None = None
    ) -> None:
        self._folder = folder
        self._gguf = gguf
        self._given: Found | ChatTemplate | None = None
        self._options: dict[str, Any] = {}
        self._made: dict[bool, ChatTemplate] = {}
        self._lock = Lock()
        self.change(template, {})

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments. The template is read again after unpickling."""
        return {**self.__dict__, "_made": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def template(self, tokens: SpecialTokens, *, is_needed: bool = True) -> ChatTemplate:
        """Return the template; ``tokens`` are used if no file declares special tokens.

        Raises :class:`ChatTemplateError` with the places that were searched, and
        :class:`MissingExtraError` without jinja2.
        """
        with self._lock:
            if is_needed not in self._made:
                self._made[is_needed] = self._make(tokens, is_needed)
            return self._made[is_needed]

    def change(self, template: NewTemplate | None, options: Mapping[str, Any]) -> None:
        """Use ``template`` from now on; None means the one in the files.

        See ``set_chat_template``. Raises TypeError for an unknown option, or for options together
        with a ChatTemplate.
        """
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}; expected {', '.join(_OPTIONS)}")
        given: Found | ChatTemplate | None
        if template is None or hasattr(template, "render_with_spans"):
            given = template  # type: ignore[assignment]
        else:
            given = sources.given(template)
        if options and given is not None and not isinstance(given, Found):
            raise TypeError(
                "options cannot be given with a ChatTemplate: pass them to ChatTemplate(...)"
            )
        with self._lock:
            self._given, self._options, self._made = given, dict(options), {}

    def _make(self, tokens: SpecialTokens, is_needed: bool) -> ChatTemplate:
        if self._given is not None and not isinstance(self._given, Found):
            return self._given
        kind = within("streamdec.chat.template").ChatTemplate
        options = {**self._options}
        found = self._given or self._found()
        if found is None and is_needed:
            raise ChatTemplateError(f"no chat template: {self._looked_for()}")
        own = {**self._tokens(tokens), **(options.pop("special_tokens", None) or {})}
        made: ChatTemplate = kind(found, special_tokens=own, **options)
        return made

    def _found(self) -> Found | None:
        found = None
        if self._gguf is not None:
            try:
                metadata = read_metadata(self._gguf, sources.is_gguf_template)
            except TokenizerLoadError as error:
                raise ChatTemplateError(str(error)) from error
            found = sources.from_gguf(metadata, self._gguf)
        if found is None and self._folder is not None:
            found = sources.from_snapshot(self._folder)
        return found

    def _tokens(self, tokens: SpecialTokens) -> dict[str, str]:
        """Return the tokens that the files name, and before them the tokenizer's own."""
        roles = ((role, getattr(tokens, role)) for role in ROLES)
        own = {role: text for role, text in roles if text is not None}
        if self._folder is None or self._gguf is not None:
            return own
        return own | sources.special_tokens_of(self._folder)

    def _looked_for(self) -> str:
        told = []
        if self._gguf is not None:
            told.append(f"{str(self._gguf)!r} has no tokenizer.chat_template in its metadata")
        if self._folder is not None:
            told.append(sources.looked_for(self._folder))
        if not told:
            told.append(
                "the tokenizer was loaded by the name of an encoding, which has no template"
            )
        told.append(sources.INSTEAD)
        return "; ".join(told)
