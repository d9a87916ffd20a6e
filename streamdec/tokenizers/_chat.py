"""A tokenizer's chat template: text or ids of a conversation.

In: messages. Out: the prompt that the model's template renders. ``load_tokenizer`` gives a
tokenizer a ``TokenizerChat``, which finds the template and imports its library at first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from streamdec.errors import ChatTemplateError
from streamdec.protocols import Tokenizer

if TYPE_CHECKING:
    from streamdec.chat.template import ChatTemplate
    from streamdec.chat.tokenizer_chat import TokenizerChat

    NewTemplate = (
        str | os.PathLike[str] | Mapping[str, str] | Sequence[Mapping[str, str]] | ChatTemplate
    )
    """A template: a text, the path of a file, several by name, or a ChatTemplate."""

_OF_TENSORS = frozenset(
    {
        *("max_length", "padding", "return_assistant_tokens_mask", "return_dict"),
        *("return_tensors", "tokenizer_kwargs", "truncation"),
    }
)
"""Options of transformers' method, which would otherwise become variables of the template."""


class ChatTokenizer(Tokenizer, Protocol):
    """The methods of a tokenizer for conversations."""

    _chat: TokenizerChat | None = None
    """Only a tokenizer that ``load_tokenizer`` made has one."""

    def get_chat_template(self) -> ChatTemplate:
        """Return the :class:`~streamdec.chat.ChatTemplate` of the tokenizer.

        Its ``origin`` names the file. The template is read at the first call.

        Without a template, raises :class:`~streamdec.errors.ChatTemplateError`, which says where a
        template was looked for. Raises :class:`~streamdec.errors.MissingExtraError` without jinja2.
        """
        return _source_of(self).template(self.special_tokens)

    def set_chat_template(self, template: NewTemplate | None = None, **options: Any) -> None:
        """Render with ``template`` from now on instead of the model's own.

        ``template`` is a text, the path of a file, several templates by name, or a
        :class:`~streamdec.chat.ChatTemplate`; None restores the model's own. ``options`` are
        those of that class: ``profile``, ``now``, ``isolate``, ``special_tokens``.

        Raises :class:`~streamdec.errors.ChatTemplateError` for a file that cannot be read, for
        another type, and for a tokenizer that ``load_tokenizer`` did not make; TypeError for an
        unknown option, or for options together with a ChatTemplate. Errors in the template are
        raised at first use.
        """
        _source_of(self).change(template, options)

    @overload
    def apply_chat_template(
        self,
        messages: Iterable[Any],
        *,
        tokenize: Literal[False] = False,
        openai: bool = False,
        **options: Any,
    ) -> str: ...

    @overload
    def apply_chat_template(
        self,
        messages: Iterable[Any],
        *,
        tokenize: Literal[True],
        openai: bool = False,
        **options: Any,
    ) -> list[int]: ...

    def apply_chat_template(
        self,
        messages: Iterable[Any],
        *,
        tokenize: bool = False,
        openai: bool = False,
        **options: Any,
    ) -> str | list[int]:
        r"""Render ``messages`` as the text of a prompt; with ``tokenize``, return its ids.

        The text is that of :meth:`streamdec.chat.ChatTemplate.render`, which documents the
        ``options`` (``tools``, ``add_generation_prompt`` and so on). The ids are those of
        ``encode(text, add_special_tokens=False)``, because templates write special tokens
        themselves. ``openai`` first converts messages of OpenAI's clients as vLLM and SGLang do.
        ``chat_template`` is a template for this call.

        Raises :class:`~streamdec.errors.ChatTemplateError` if there is no template, or if it fails;
        :class:`~streamdec.errors.MissingExtraError` without jinja2; TypeError for options of
        transformers that concern tensors, such as ``return_tensors``.

        >>> from streamdec import load_tokenizer
        >>> tokenizer = load_tokenizer("demo")
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> tokenizer.apply_chat_template(messages)
        '<|im_start|>user\nHi<|im_end|>\n'
        >>> tokenizer.apply_chat_template(messages, tokenize=True)[:2]
        [1, 87]
        """
        for name in _OF_TENSORS & options.keys():
            if options.pop(name):
                raise TypeError(f"{name!r} is not supported: the result is a str or a list of ids")
        is_needed = options.get("chat_template") is None
        template = _source_of(self).template(self.special_tokens, is_needed=is_needed)
        if openai:
            messages = template.openai_messages(
                messages,
                chat_template=options.get("chat_template"),
                with_tools=options.get("tools") is not None,
            )
        text = template.render(messages, **options)
        return list(self.encode(text, add_special_tokens=False)) if tokenize else text


def _source_of(tokenizer: ChatTokenizer) -> TokenizerChat:
    if tokenizer._chat is None:
        raise ChatTemplateError(
            "no chat template: this tokenizer was not made by load_tokenizer, which looks for one; "
            "streamdec.chat.ChatTemplate renders without a tokenizer"
        )
    return tokenizer._chat
