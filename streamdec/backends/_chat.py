"""A tokenizer's chat template: text or ids of a conversation.

In: messages. Out: what the model's own template makes of them. Where that template is and what
renders it is the affair of the :class:`ChatSource` that ``load_tokenizer`` gives a tokenizer; it is
asked for when first needed, and so is the library.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, overload

from streamdec.encoding import Encoding, SpecialTokens
from streamdec.errors import ChatTemplateError

__all__ = ["ChatRenderer", "ChatSource", "ChatTokenizer", "NewTemplate"]


_OF_TENSORS = frozenset(
    {
        *("max_length", "padding", "return_assistant_tokens_mask", "return_dict"),
        *("return_tensors", "tokenizer_kwargs", "truncation"),
    }
)
"""Options of transformers' method, which a template would take for variables of its own."""


class ChatRenderer(Protocol):
    """A template that renders: a :class:`streamdec.chat.ChatTemplate`."""

    @property
    def origin(self) -> object:
        """Where it is from, and why that one."""
        ...

    def openai_messages(
        self,
        messages: Iterable[Any],
        *,
        chat_template: str | None = None,
        with_tools: bool = False,
        separator: str = "\n",
    ) -> list[dict[str, Any]]:
        """Messages of a client of OpenAI's API, as this template takes them."""
        ...

    def render(self, messages: Iterable[Any], **options: Any) -> str:
        """The text of a conversation."""
        ...

    def render_with_spans(
        self, messages: Iterable[Any], **options: Any
    ) -> tuple[str, list[tuple[int, int]]]:
        """The text of a conversation, and where in it the assistant speaks."""
        ...


NewTemplate = (
    str | os.PathLike[str] | Mapping[str, str] | Sequence[Mapping[str, str]] | ChatRenderer
)
"""A template: a text, the path of a file, several with names, or one that is ready."""


class ChatSource(Protocol):
    """Where the template of a tokenizer is."""

    def template(self, tokens: SpecialTokens, fallback: str | None = None) -> ChatRenderer:
        """The template; ``tokens`` are for one that has no files to say which there are."""
        ...

    def change(self, template: NewTemplate | None, options: Mapping[str, Any]) -> None:
        """Have another template, or the same with other options."""
        ...


class ChatTokenizer(ABC):
    """The part of a tokenizer that knows conversations."""

    _chat: ChatSource | None = None
    """Only a tokenizer that ``load_tokenizer`` made has one."""

    @property
    @abstractmethod
    def special_tokens(self) -> SpecialTokens:
        """The special tokens and their roles."""

    @abstractmethod
    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Any = "parse"
    ) -> Encoding:
        """The ids of a text."""

    def get_chat_template(self, *, fallback: Literal["simple"] | None = None) -> ChatRenderer:
        """The :class:`~streamdec.chat.ChatTemplate`; its ``origin`` says which file and why.

        It is read when it is first asked for, and kept.

        Raises :class:`~streamdec.ChatTemplateError` if there is none, which says what was looked
        for, unless ``fallback`` is ``"simple"``; :class:`~streamdec.MissingExtraError` without
        jinja2.
        """
        return self._chat_source.template(self.special_tokens, fallback)

    def set_chat_template(self, template: NewTemplate | None = None, **options: Any) -> None:
        """Render with ``template`` from now on, whatever the model's files have.

        It is a text, the path of a file with it, several by their names, or a
        :class:`~streamdec.chat.ChatTemplate`; None is the one of the files. ``options`` are
        those of that class: ``profile``, ``now``, ``trust``, ``special_tokens``, ``fallback``.

        Raises :class:`~streamdec.ChatTemplateError` for a file that cannot be read, for what is no
        template, and for a tokenizer that ``load_tokenizer`` did not make; TypeError for an unknown
        option. The template is then the one from before. What is wrong in the template, and a bad
        option (ValueError), is told where it is first needed.

        >>> from streamdec import load_tokenizer
        >>> tokenizer = load_tokenizer("path/to/model")
        >>> tokenizer.set_chat_template("{% for m in messages %}<{{ m.role }}>{% endfor %}")
        >>> tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])
        '<user>'
        """
        self._chat_source.change(template, options)

    @overload
    def apply_chat_template(
        self,
        messages: Iterable[Any],
        *,
        tokenize: Literal[False] = False,
        openai: bool = False,
        fallback: Literal["simple"] | None = None,
        **options: Any,
    ) -> str: ...

    @overload
    def apply_chat_template(
        self,
        messages: Iterable[Any],
        *,
        tokenize: Literal[True],
        openai: bool = False,
        fallback: Literal["simple"] | None = None,
        **options: Any,
    ) -> list[int]: ...

    def apply_chat_template(
        self,
        messages: Iterable[Any],
        *,
        tokenize: bool = False,
        openai: bool = False,
        fallback: Literal["simple"] | None = None,
        **options: Any,
    ) -> str | list[int]:
        r"""``messages`` as the text of a prompt, or with ``tokenize`` its ids.

        The text is that of :meth:`streamdec.chat.ChatTemplate.render`, which has the ``options``
        (``tools``, ``add_generation_prompt`` and so on); the ids are those of ``encode(text,
        add_special_tokens=False)``, as templates write special tokens themselves. With ``openai``
        the messages are first made what vLLM and SGLang make of those of OpenAI's clients.
        ``fallback="simple"`` renders lines of role and content if the model has no template.

        Raises :class:`~streamdec.ChatTemplateError` for whatever fails in the template, and if
        there is none; TypeError for options that transformers has for its tensors.

        >>> from streamdec import load_tokenizer
        >>> tokenizer = load_tokenizer("path/to/model")
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> tokenizer.apply_chat_template(messages)
        '<|im_start|>user\nHi<|im_end|>\n'
        >>> tokenizer.apply_chat_template(messages, tokenize=True)[:2]
        [1, 87]
        """
        for name in _OF_TENSORS & options.keys():
            if options.pop(name):
                raise TypeError(f"{name!r} is no option here: ids are a list, and text a str")
        template = self.get_chat_template(fallback=fallback)
        if openai:
            messages = template.openai_messages(
                messages,
                chat_template=options.get("chat_template"),
                with_tools=options.get("tools") is not None,
            )
        text = template.render(messages, **options)
        return list(self.encode(text, add_special_tokens=False)) if tokenize else text

    @property
    def _chat_source(self) -> ChatSource:
        if self._chat is None:
            raise ChatTemplateError(
                "no chat template: this tokenizer was not made by load_tokenizer, which looks for "
                "one; streamdec.chat.ChatTemplate renders without a tokenizer"
            )
        return self._chat
