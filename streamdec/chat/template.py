"""``ChatTemplate`` renders conversations to prompts exactly as transformers does.

In: messages, tools and documents. Out: the text, and the spans of the assistant's text in it. A
template is a program. That of a model runs in this process, in jinja2's sandbox, or in a child
process with limits. One that comes with a request is always parsed and run in a child process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

from streamdec.chat import isolated, sources
from streamdec.chat.arguments import errors_of_input, list_of_dicts, variables_of_request
from streamdec.chat.content_format import content_format_of
from streamdec.chat.environment import Clock, Profile, make_environment
from streamdec.chat.messages import (
    ContentFormat,
    cut_at_mark,
    mark_end,
    openai_messages,
    prepared,
    unconverted,
)
from streamdec.chat.plain import plain
from streamdec.chat.rendering import FAILS, compile_template, parse_template, render_compiled
from streamdec.chat.sources import Found, Origin, Templates
from streamdec.errors import ChatTemplateError, warn
from streamdec.mistakes import check_flag

Span = tuple[int, int]
"""Start and end, in characters."""


class ChatTemplate:
    """The chat template of a model. Threads may share it.

    A template is compiled when it first renders. The last 32 stay compiled.

    Args:
        template: the text of a jinja2 template; several templates with names, as a mapping of names
            to texts or a list of ``{"name": …, "template": …}`` as in ``tokenizer_config.json``; or
            None for no template. A ``Found`` is for streamdec's own modules.
        special_tokens: a mapping of roles (``"bos_token"``) to texts, which become variables. Roles
            whose text is None are left out.
        profile: the versions of transformers whose text is rendered: ``"classic"`` (4.57 to 5.20)
            or ``"hardened"`` (from 5.22.2).
        now: the time for ``strftime_now``: a datetime, or a function that returns one; by default
            the local time.
        isolate: whether the template runs in a child process, with 2 seconds of processor time, 10
            seconds by the clock and 512 MiB of memory (see
            ``docs/how-to/render-chat-templates.md`` for macOS and Windows). Otherwise it runs in
            this process, in jinja2's sandbox, as in transformers and vLLM. Then only the size of
            the template and of the output is limited, not its time and memory.

    Raises :class:`~streamdec.errors.ChatTemplateError` if ``template`` is not a template,
    ValueError for an option with a wrong value, and TypeError if ``isolate`` is not a bool.

    >>> from streamdec.chat import ChatTemplate
    >>> template = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    >>> template.render([{"role": "user", "content": "Hi"}])
    '<user>Hi'
    """

    def __init__(
        self,
        template: Templates | Found | None,
        *,
        special_tokens: Mapping[str, str | None] | None = None,
        profile: Profile | str = "classic",
        now: Clock | None = None,
        isolate: bool = False,
    ) -> None:
        check_flag("isolate", isolate)
        if not isinstance(template, Found):
            template = sources.given_as_text(template)
        self.templates: str | dict[str, str] | None = template.templates
        """The template, or several by their names; None without one."""
        self.origin: Origin = template.origin
        """Where it was found, and why this one was chosen."""
        given = (special_tokens or {}).items()
        self.special_tokens: dict[str, str] = {role: t for role, t in given if t is not None}
        """The special tokens that the template sees, by their roles."""
        self.profile: str = profile
        self.isolate = isolate
        """Whether it runs in a child process."""
        self._now = now
        self._environment = make_environment(profile, now=now)
        self._compiled = lru_cache(32)(partial(compile_template, environment=self._environment))
        self._formats = lru_cache(32)(self._format_of)

    @classmethod
    def from_snapshot(
        cls,
        folder: str | os.PathLike[str],
        *,
        chat_template: Templates | os.PathLike[str] | None = None,
        special_tokens: Mapping[str, str | None] | None = None,
        profile: Profile | str = "classic",
        now: Clock | None = None,
        isolate: bool = False,
    ) -> Self:
        """Return the template of the model in ``folder``, with its special tokens.

        It is the first of ``chat_template`` (a text or the path of a file),
        ``chat_template.jinja`` with ``additional_chat_templates/*.jinja``,
        ``tokenizer_config.json`` and ``chat_template.json``. ``special_tokens`` replace those of
        the files. ``profile``, ``now`` and ``isolate`` are those of the class. No code of the
        folder runs.

        Raises the errors of the class, and :class:`~streamdec.errors.ChatTemplateError` if there is
        no template (the message lists the files that were searched) or a file cannot be read.

        >>> from streamdec.chat import ChatTemplate
        >>> template = ChatTemplate.from_snapshot("path/to/model", isolate=True)
        >>> template.origin.kind, str(template.origin.path)
        ('tokenizer config', 'path/to/model/tokenizer_config.json')
        """
        place = Path(os.fsdecode(folder))
        if chat_template is None:
            found = sources.from_snapshot(place)
        else:
            found = sources.given(chat_template)
        if found.templates is None:
            raise ChatTemplateError(f"no chat template: {found.origin.reason}")
        tokens = {**sources.special_tokens_of(place), **(special_tokens or {})}
        return cls(found, special_tokens=tokens, profile=profile, now=now, isolate=isolate)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what was given. Templates are compiled again after unpickling."""
        options: dict[str, Any] = {"special_tokens": self.special_tokens, "profile": self.profile}
        options |= {"now": self._now, "isolate": self.isolate}
        return partial(type(self), Found(self.templates, self.origin), **options), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.origin)!r}, profile={self.profile!r})"

    # --- rendering --------------------------------------------------------------------------------

    def render(
        self,
        messages: Iterable[Any],
        *,
        tools: Iterable[Any] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        template_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> str:
        r"""Return ``messages`` as the text of a prompt. The arguments are not changed.

        Args:
            messages: an iterable of the messages: dicts with a role and content, or objects with
                such fields.
            tools: JSON schemas. ``transformers.utils.get_json_schema`` makes one of a function.
            documents: dicts, for templates that use them.
            chat_template: the name of one of several templates, or the text of another template,
                which is isolated. By default ``tool_use`` if there are tools (an empty list
                counts), else ``default``.
            add_generation_prompt: whether to append the template's header of an assistant message,
                so that the model answers. Not allowed together with ``continue_final_message``.
            continue_final_message: whether the last message is left open, so that the model
                continues it: True, or the name of the field to continue.
            template_kwargs: variables of the template that came with a request (vLLM's
                ``chat_template_kwargs``). ``chat_template``, ``tokenize`` and the names of the
                other arguments are rejected.
            kwargs: variables of the template. They replace special tokens and ``template_kwargs``
                of the same name.

        Raises :class:`~streamdec.errors.ChatTemplateError` for an error in the template, and for
        messages or options that cannot be rendered. The object can be used again after any error.

        >>> from streamdec.chat import ChatTemplate
        >>> template = ChatTemplate.from_snapshot("path/to/model")
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> template.render(messages, add_generation_prompt=True)
        '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
        """
        if continue_final_message and add_generation_prompt:
            raise ChatTemplateError(
                "continue_final_message and add_generation_prompt cannot be combined: the first "
                "continues the last message, the second begins a new one"
            )
        source, name = self._chosen(chat_template, tools is not None)
        kwargs["add_generation_prompt"] = add_generation_prompt
        with errors_of_input():
            conversation = prepared(messages, self.profile)
            variables = self._variables(tools, documents, template_kwargs, **kwargs)
        if not continue_final_message:
            return self._rendered(source, name, conversation, variables)[0]
        field = continue_final_message if isinstance(continue_final_message, str) else "content"
        with errors_of_input():
            conversation, last = mark_end(conversation, field, source, self.profile)
        return cut_at_mark(self._rendered(source, name, conversation, variables)[0], last)

    def render_with_spans(self, messages: Iterable[Any], **options: Any) -> tuple[str, list[Span]]:
        r"""Return the text of :meth:`render`, and the spans of the assistant's text in it.

        A span is a start and an end in code points. It is the text that the template outputs
        between ``{% generation %}`` and ``{% endgeneration %}``. Without these, the list is empty,
        and there is a StreamdecWarning.
        ``messages``, the other ``options`` and the errors are those of :meth:`render`. With
        ``continue_final_message`` there are no spans, so it raises
        :class:`~streamdec.errors.ChatTemplateError`.

        >>> from streamdec.chat import ChatTemplate
        >>> source = "<{% generation %}{{ messages[0].content }}{% endgeneration %}>"
        >>> messages = [{"role": "assistant", "content": "Hi"}]
        >>> text, spans = ChatTemplate(source).render_with_spans(messages)
        >>> [text[start:end] for start, end in spans]
        ['Hi']
        """
        if options.pop("continue_final_message", False):
            raise ChatTemplateError("continue_final_message: a message left open has no span")
        is_with_tools = options.get("tools") is not None
        source, name = self._chosen(options.pop("chat_template", None), is_with_tools)
        if "endgeneration" not in source:
            warn("the chat template has no {% generation %} tags, so there are no spans")
        with errors_of_input():
            conversation = prepared(messages, self.profile)
            variables = self._variables(**options)
        return self._rendered(source, name, conversation, variables)

    def _variables(
        self, tools: Any = None, documents: Any = None, template_kwargs: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the variables of the template besides the messages."""
        return {
            "tools": list_of_dicts("tools", tools),
            "documents": list_of_dicts("documents", documents),
            "add_generation_prompt": False,
            **self.special_tokens,
            **variables_of_request(template_kwargs),
            **kwargs,
        }

    def _rendered(
        self, source: str, name: str, conversation: list[Any], variables: dict[str, Any]
    ) -> tuple[str, list[Span]]:
        # transformers rejects an empty conversation. Here a template that reads no messages
        # renders.
        if not conversation and "messages" in source:
            raise ChatTemplateError("messages must have at least one message")
        isolates = self._isolates(source)
        with errors_of_input():
            seen = {"messages": conversation, **variables}
            seen = plain(seen) if self.profile == "hardened" or isolates else seen
        try:
            if not isolates:
                return render_compiled(self._compiled(source, name=name), seen, name)
            return isolated.render_isolated(
                source, seen, profile=self.profile, now=self._now, name=name
            )
        except ChatTemplateError as error:
            if error.code == FAILS and (what := unconverted(conversation, self._formats(source))):
                advice = "to convert such messages, pass openai=True, or --openai in a shell"
                error.args = (f"{error}; {what}; {advice}",)
            # Not in the message: a server may send that to its client.
            if self._is_own(source) and self.origin.path is not None:
                error.add_note(f"the chat template was read from {self.origin.path}")
            raise

    def _isolates(self, source: str) -> bool:
        """Whether ``source`` is parsed and run in a child process."""
        return self.isolate or not self._is_own(source)

    def _is_own(self, source: str) -> bool:
        """Whether ``source`` is a template of the model."""
        templates = self.templates
        return source in (templates.values() if isinstance(templates, dict) else (templates,))

    def _chosen(self, chat_template: str | None, with_tools: bool) -> tuple[str, str]:
        """Return the text of the template to render, and its name in error messages."""
        if not isinstance(chat_template, str | None):
            problem = f"chat_template must be a name or a text, not {type(chat_template).__name__}"
            raise ChatTemplateError(problem)
        templates = self.templates
        if isinstance(templates, dict):
            name = chat_template
            if name is None:
                name = "tool_use" if with_tools and "tool_use" in templates else "default"
            if name in templates:
                return templates[name], repr(name)
            if chat_template is None:
                names = ", ".join(map(repr, templates)) or "none"
                raise ChatTemplateError(
                    "there are several templates and none is called 'default'; choose one with "
                    f"chat_template=: {names}"
                )
        if chat_template is not None:
            return chat_template, "given for this rendering"
        if templates is None:
            raise ChatTemplateError(f"no chat template: {self.origin.reason}")
        path = self.origin.path
        assert isinstance(templates, str)
        return templates, "" if path is None else path.name

    # --- messages as OpenAI's clients write them --------------------------------------------------

    def content_format(
        self, *, chat_template: str | None = None, with_tools: bool = False
    ) -> ContentFormat:
        """Return the format of content that the template takes.

        It is ``"string"``, ``"parts"`` or ``"parts only"``. The parsed template shows it, without
        rendering. ``chat_template`` and ``with_tools`` choose among several templates as
        :meth:`render` does. An isolated template is parsed in a child process.

        Raises :class:`~streamdec.errors.ChatTemplateError` for a template that cannot be parsed.

        >>> from streamdec.chat import ChatTemplate
        >>> ChatTemplate.from_snapshot("path/to/model").content_format()
        'string'
        """
        source, _ = self._chosen(chat_template, with_tools)
        return self._formats(source)

    def _format_of(self, source: str) -> ContentFormat:
        if self._isolates(source):
            return isolated.content_format_isolated(source, profile=self.profile)
        return content_format_of(parse_template(self._environment, source))

    def openai_messages(
        self,
        messages: Iterable[Any],
        *,
        chat_template: str | None = None,
        with_tools: bool = False,
        separator: str = "\n",
    ) -> list[dict[str, Any]]:
        r"""Convert ``messages`` of OpenAI's API for this template, as vLLM and SGLang do.

        :func:`~streamdec.chat.openai_messages` says how, for the content that the template takes.
        The role ``developer`` becomes ``system`` if the template does not name it, as in vLLM; in
        SGLang it stays. ``chat_template`` and ``with_tools`` choose among several templates. Pass
        the result to :meth:`render`.

        Raises :class:`~streamdec.errors.ChatTemplateError`, with the number of the message.

        >>> from streamdec.chat import ChatTemplate
        >>> template = ChatTemplate.from_snapshot("path/to/model")
        >>> content = [{"type": "text", "text": "Hi"}]
        >>> template.openai_messages([{"role": "user", "content": content}])
        [{'role': 'user', 'content': 'Hi'}]
        """
        source, _ = self._chosen(chat_template, with_tools)
        options = {"profile": self.profile, "separator": separator}
        converted = openai_messages(messages, self._formats(source), **options)
        for message in converted:
            if message["role"] == "developer" and "developer" not in source:
                message["role"] = "system"
        return converted
