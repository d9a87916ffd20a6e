"""Renders and encodes the prompts of requests.

In: conversations and prompts. Out: token ids, and whether a chat's answer begins in the reasoning.
The functions may take long, so :mod:`streamdec.server.app` calls them in a thread if a body is
large.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamdec.chunks import same_items
from streamdec.errors import ChatTemplateError, StreamdecError
from streamdec.server.errors import RequestError
from streamdec.server.limits import ServerLimits
from streamdec.server.requests import Chat, Prompt
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

_log = logging.getLogger("streamdec.server")
_LONGEST_MESSAGE = 500
"""The most code points of a template's error that clients get."""
Pairs = tuple[tuple[str, str], ...]


class Prompts:
    """The prompts of one model. Threads may share it."""

    def __init__(self, tokenizer: LoadedTokenizer, limits: ServerLimits) -> None:
        self._tokenizer = tokenizer
        self._limits = limits
        self._template: Any = None
        try:
            self._template = tokenizer.get_chat_template()
        except (AttributeError, ChatTemplateError) as error:
            _log.warning("chats are not served: %s", error)

    def ids_of(self, prompt: Prompt) -> list[int]:
        """Return the ids of a prompt. Raises RequestError if there are too many or none."""
        if not isinstance(prompt, str):
            return self._checked(prompt, "prompt")
        return self._encoded(prompt, "prompt", add_special_tokens=True)

    def ids_of_chat(self, chat: Chat, markers: Pairs) -> tuple[list[int], Pairs, bool]:
        """Return the ids of a conversation, the markers, and whether it ends in them.

        The answer then begins between the first pair. Only what the template adds after the
        messages decides this, or the message that the answer continues. A marker that a user wrote
        does not.
        """
        text = self._rendered(chat, for_answer=True)
        ids = self._encoded(text, "messages", add_special_tokens=False)
        if not markers:
            return ids, (), False
        shorter = replace(chat, messages=chat.messages[:-1]) if chat.continues else chat
        before = self._rendered(shorter, for_answer=False) if shorter.messages else ""
        added = text[same_items(before, text) :]
        for pair in markers:
            if added.rfind(pair[0]) > added.rfind(pair[1]):
                return ids, (pair, *(each for each in markers if each != pair)), True
        return ids, markers, False

    def _rendered(self, chat: Chat, *, for_answer: bool) -> str:
        if self._template is None:
            message = "this model has no chat template: use /v1/completions"
            raise RequestError(message, param="messages", code="no_chat_template")
        try:
            text: str = self._template.render(
                self._template.openai_messages(chat.messages, with_tools=chat.tools is not None),
                tools=chat.tools,
                add_generation_prompt=for_answer and not chat.continues,
                continue_final_message=for_answer and chat.continues,
                template_kwargs=chat.variables,
            )
        except ChatTemplateError as error:
            message = f"the messages cannot be rendered: {error}"[:_LONGEST_MESSAGE]
            raise RequestError(message, param="messages", code="chat_template_error") from None
        return text

    def _encoded(self, text: str, param: str, *, add_special_tokens: bool) -> list[int]:
        try:
            found = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        except (StreamdecError, UnicodeError) as error:  # or a lone surrogate
            message = f"{param} cannot be encoded: {error}"[:_LONGEST_MESSAGE]
            raise RequestError(message, param=param) from None
        return self._checked(list(found.ids), param)

    def _checked(self, ids: list[int], param: str) -> list[int]:
        most = self._limits.prompt_tokens
        if not ids:
            raise RequestError(f"{param} has no tokens", param=param)
        if len(ids) > most:
            message = f"{param} has {len(ids)} tokens, and the limit is {most}"
            raise RequestError(message, param=param, code="context_length_exceeded")
        return ids


def holds_special_tokens(tokenizer: LoadedTokenizer, markers: Sequence[tuple[str, str]]) -> bool:
    """Whether a marker has a special token and more. Then none may be skipped."""
    names = [name for name in tokenizer.special_tokens.all if name]
    return any(
        name in marker and name != marker for pair in markers for marker in pair for name in names
    )
