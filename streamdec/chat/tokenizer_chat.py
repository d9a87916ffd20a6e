"""The chat template of a tokenizer, read on first use.

In: the tokenizer's folder or file. Out: a :class:`~streamdec.chat.template.ChatTemplate`. Making a
:class:`TokenizerChat` reads no file and does not need jinja2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from streamdec.chat import require_jinja2, sources
from streamdec.chat.sources import Found
from streamdec.encoding import SpecialTokens
from streamdec.errors import ChatTemplateError
from streamdec.folders.tokenizer_config import ROLES

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
        self.change(template, {})

    def template(self, tokens: SpecialTokens, *, is_needed: bool = True) -> ChatTemplate:
        """Return the template; ``tokens`` are used if no file declares special tokens.

        Raises :class:`MissingExtraError` without jinja2. If no template was found, raises
        :class:`ChatTemplateError` with the places that were searched. With ``is_needed=False``,
        only rendering raises it then.
        """
        given, options, made = self._state
        if not made:
            made.append(self._make(given, options, tokens))
        if is_needed and made[0].templates is None:
            raise ChatTemplateError(f"no chat template: {made[0].origin.reason}")
        return made[0]

    def change(self, template: NewTemplate | None, options: Mapping[str, Any]) -> None:
        """Use ``template`` from now on; None means the one in the files.

        See ``set_chat_template``. Raises TypeError for an unknown option, or for options together
        with a ChatTemplate.
        """
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}; expected {', '.join(_OPTIONS)}")
        given: Found | None = None
        made: list[ChatTemplate] = []
        if hasattr(template, "render_with_spans"):
            if options:
                problem = "options cannot be given with a ChatTemplate"
                raise TypeError(f"{problem}: pass them to ChatTemplate(...)")
            made.append(cast("ChatTemplate", template))
        elif template is not None:
            given = sources.given(cast("sources.Templates", template))
        # One assignment, for threads that render meanwhile.
        self._state = (given, dict(options), made)

    def _make(
        self, given: Found | None, options: dict[str, Any], tokens: SpecialTokens
    ) -> ChatTemplate:
        require_jinja2()
        from streamdec.chat.template import ChatTemplate

        found = given or self._found()
        own = {**self._tokens(tokens), **(options.get("special_tokens") or {})}
        return ChatTemplate(found, **{**options, "special_tokens": own})

    def _found(self) -> Found:
        """Return the template in the files, or the places that were searched."""
        searched = ""
        if self._gguf is not None:
            in_file = sources.from_gguf(self._gguf)
            if in_file is not None:
                return in_file
            searched = f"{str(self._gguf)!r} has no tokenizer.chat_template in its metadata; "
        if self._folder is None:
            return sources.nothing("the tokenizer was loaded by the name of an encoding")
        found = sources.from_snapshot(self._folder)
        reason = f"{searched}{found.origin.reason}"
        return replace(found, origin=replace(found.origin, reason=reason))

    def _tokens(self, tokens: SpecialTokens) -> dict[str, str]:
        """Return the tokens that the files name, and before them the tokenizer's own."""
        roles = ((role, getattr(tokens, role)) for role in ROLES)
        own = {role: text for role, text in roles if text is not None}
        if self._folder is None or self._gguf is not None:
            return own
        return own | sources.special_tokens_of(self._folder)
