"""``ChatTemplate``: a conversation as the text of a prompt, byte for byte as transformers has it.

In: messages, tools and documents. Out: the text, and where in it the assistant's text is. A
template is a program. The template of a model runs in this process, in jinja2's sandbox, after a
check of its size and depth; or, with ``isolate=True``, in a process of its own with limits of
memory and time. A template that comes with a request always runs there.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from jinja2 import Template

from streamdec.chat import sources
from streamdec.chat.content_format import content_format_of
from streamdec.chat.environment import PROFILES, Clock, Profile, make_environment
from streamdec.chat.messages import ContentFormat, ContinueFinal, openai_messages, prepared
from streamdec.chat.plain import plain
from streamdec.chat.rendering import compile_template, render_compiled, render_once
from streamdec.chat.schemas import tool_schemas
from streamdec.chat.sources import Found, Origin, Templates
from streamdec.chat.static_check import check_template
from streamdec.errors import ChatTemplateError
from streamdec.locks import Lock

__all__ = ["ChatTemplate", "Fallback", "render_once"]

Fallback = Literal["simple"]
"""What is rendered where a model has no template: ``"simple"``, a line for each message."""

Span = tuple[int, int]
"""Start and end, in characters."""

SIMPLE = """\
{%- for message in messages %}
{{- message.role }}: {{ '' -}}
{% set content = message.content -%}
{% if content is not string %}
{%- set content = content | map(attribute='text') | select('string') | join('\n') -%}
{% endif -%}
{% if message.role == 'assistant' %}{% generation %}{{ content }}{% endgeneration -%}
{% else %}{{ content }}{% endif %}
{{ '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}assistant:{% endif %}"""
"""The template of ``fallback="simple"``."""

_ENDLESS = "messages, tools or variables: something contains itself, or is nested too deeply"
_ARGUMENTS = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message")
)
_KEPT = 32
"""Compiled templates that are kept: those of a model have up to five names."""


T = TypeVar("T")


class _Recent(Generic[T]):
    """What was made of the last few templates, for any number of threads."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, source: str, make: Callable[[str], T]) -> T:
        """What ``make`` makes of ``source``, or made before; two threads may both make it."""
        with self._lock:
            if source in self._made:
                self._made.move_to_end(source)
                return self._made[source]
        made = make(source)
        with self._lock:
            self._made[source] = made
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made


class ChatTemplate:
    """The chat template of a model, ready to render; threads may share it.

    A template is not compiled, and so not run, before it renders; the last 32 stay compiled.

    Args:
        template: the text of a jinja2 template, or several with names: a mapping, or a list of
            ``{"name": …, "template": …}`` as in ``tokenizer_config.json``; None for none.
        special_tokens: roles (``"bos_token"``) and the texts that the variables of that name have.
        profile: the span of versions of transformers whose text is wanted: ``"classic"`` (4.57 to
            5.20) or ``"hardened"`` (from 5.22.2).
        now: the time that ``strftime_now`` tells: a datetime, or a function that gives one; by
            default the local time.
        isolate: whether the template runs in a process of its own, with 2 seconds of processor
            time, 10 seconds by the clock and 512 MiB of memory (see
            ``docs/explanation/hostile-templates.md`` for macOS and Windows). Without it, it runs in
            this process, in jinja2's sandbox, as in transformers and vLLM: nothing bounds its time
            and memory but the size of the template and of the output.
        fallback: with ``"simple"``, a line of role and content for each message is rendered where
            ``template`` is None.

    Raises :class:`~streamdec.ChatTemplateError` for what is no template, and ValueError for another
    option.

    >>> from streamdec.chat import ChatTemplate
    >>> template = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    >>> template.render([{"role": "user", "content": "Hi"}])
    '<user>Hi'
    """

    def __init__(
        self,
        template: Templates | None,
        *,
        special_tokens: Mapping[str, str | None] | None = None,
        profile: Profile | str = "classic",
        now: Clock | None = None,
        isolate: bool = False,
        fallback: Fallback | None = None,
    ) -> None:
        found = None if template is None else sources.named(template)
        names = tuple(found) if isinstance(found, dict) else ()
        origin = Origin("argument", None, "it was given", names)
        self._set_up(found, origin, special_tokens, profile, now, isolate, fallback)

    def _set_up(
        self,
        templates: str | dict[str, str] | None,
        origin: Origin,
        special_tokens: Mapping[str, str | None] | None,
        profile: str,
        now: Clock | None,
        isolate: bool,
        fallback: str | None,
    ) -> None:
        _check_option("profile", profile, PROFILES)
        if type(isolate) is not bool:
            raise ValueError(f"isolate must be True or False, not {isolate!r:.40}")
        _check_option("fallback", fallback, (None, "simple"))
        if templates is None and fallback is not None:
            templates, origin = SIMPLE, Origin("fallback", None, "there is no other")
        self.templates = templates
        """The template, or several by their names."""
        self.origin = origin
        """Where it is from, and why that one."""
        given = special_tokens or {}
        self.special_tokens: dict[str, str] = {
            role: text for role, text in given.items() if text is not None
        }
        """The special tokens that the template sees, by their roles."""
        self.profile = profile
        self.isolate = isolate
        """Whether it runs in a process of its own."""
        self._now = now
        self._begin()

    def _begin(self) -> None:
        """What is worked out: not compared, not pickled."""
        self._environment = make_environment(self.profile, now=self._now)
        self._compiled: _Recent[Template] = _Recent()
        self._formats: _Recent[ContentFormat] = _Recent()

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
        fallback: Fallback | None = None,
    ) -> Self:
        """The template of the model in ``folder``, with its special tokens.

        The first of ``chat_template`` (a text or the path of a file), ``chat_template.jinja`` with
        ``additional_chat_templates/*.jinja``, ``tokenizer_config.json``, ``chat_template.json``.
        ``special_tokens`` are put over those of the files. ``profile``, ``now``, ``isolate`` and
        ``fallback`` are those of the class. Nothing of the folder is run.

        Raises :class:`~streamdec.ChatTemplateError` if there is no template, which says what was
        looked for, and for a file that cannot be read; ValueError for a bad option.

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
        if found is None and fallback is None:
            is_there = place.is_dir()
            what = sources.looked_for(place) if is_there else f"{str(place)!r} is no folder"
            raise ChatTemplateError(f"no chat template: {what}")
        tokens = {**sources.special_tokens_of(place), **(special_tokens or {})}
        return cls.from_found(
            found,
            special_tokens=tokens,
            profile=profile,
            now=now,
            isolate=isolate,
            fallback=fallback,
        )

    @classmethod
    def from_found(
        cls,
        found: Found | None,
        *,
        special_tokens: Mapping[str, str | None] | None = None,
        profile: Profile | str = "classic",
        now: Clock | None = None,
        isolate: bool = False,
        fallback: Fallback | None = None,
    ) -> Self:
        """A template that was found somewhere, with its origin: for whoever looks for templates.

        ``found`` is what was found, None for nothing. ``special_tokens``, ``profile``, ``now``,
        ``isolate`` and ``fallback`` are those of the class. Raises ValueError for a bad option.
        """
        self = cls.__new__(cls)
        templates = None if found is None else found.templates
        origin = Origin("argument", None, "there is none") if found is None else found.origin
        self._set_up(templates, origin, special_tokens, profile, now, isolate, fallback)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """What was given; what is compiled is compiled again where this is unpickled."""
        made = ("_environment", "_compiled", "_formats")
        return {key: value for key, value in self.__dict__.items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

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
        r"""``messages`` as the text of a prompt. Nothing that is given is changed.

        Args:
            messages: the conversation: dicts with a role and content, or objects that become such
                dicts, in an iterable.
            tools: JSON schemas, or Python functions, of which schemas are made
                (:func:`~streamdec.chat.function_schema`).
            documents: dicts, for templates that know of them.
            chat_template: the name of one of several templates, or the text of another one, which
                is isolated. By default ``tool_use`` is taken if there are tools (an empty list
                counts), else ``default``.
            add_generation_prompt: whether the template is to begin an answer.
            continue_final_message: whether the last message is left open, so that the model goes on
                with it: True, or the name of the field to go on with.
            template_kwargs: variables of the template, of a request by somebody else (vLLM's
                ``chat_template_kwargs``); those that would change more than the template's own
                variables are refused. ``chat_template`` is never taken from there: a template of a
                stranger renders only if it is given as ``chat_template`` here, and is isolated.
            kwargs: variables of the template, which come before special tokens of the same name.

        Raises :class:`~streamdec.ChatTemplateError` for whatever goes wrong in the template, and
        for messages or options that it cannot be given. Whatever was raised, the object can go on
        rendering.

        >>> from streamdec.chat import ChatTemplate
        >>> template = ChatTemplate.from_snapshot("path/to/model")
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> template.render(messages, add_generation_prompt=True)
        '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
        """
        text, _ = self._render(
            messages,
            tools=tools,
            documents=documents,
            chat_template=chat_template,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            variables={**_of_request(template_kwargs), **kwargs},
        )
        return text

    def render_with_spans(
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
    ) -> tuple[str, list[Span]]:
        r"""As :meth:`render`, and where the assistant's text is: start and end, in code points.

        That is what the template has between ``{% generation %}`` and ``{% endgeneration %}``; the
        list is empty if it has none. ``messages``, ``tools``, ``documents``, ``chat_template``,
        ``add_generation_prompt``, ``template_kwargs`` and what is raised are as for
        :meth:`render`; with ``continue_final_message`` there are no spans, and a
        :class:`~streamdec.ChatTemplateError` says so.

        >>> from streamdec.chat import ChatTemplate
        >>> template = ChatTemplate(None, fallback="simple")
        >>> text, spans = template.render_with_spans([{"role": "assistant", "content": "Hi"}])
        >>> [text[start:end] for start, end in spans]
        ['Hi']
        """
        if continue_final_message:
            raise ChatTemplateError("continue_final_message: a message left open has no span")
        return self._render(
            messages,
            tools=tools,
            documents=documents,
            chat_template=chat_template,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=False,
            variables={**_of_request(template_kwargs), **kwargs},
        )

    def _render(
        self,
        messages: Iterable[Any],
        *,
        tools: Iterable[Any] | None,
        documents: Sequence[Mapping[str, Any]] | None,
        chat_template: str | None,
        add_generation_prompt: bool,
        continue_final_message: bool | str,
        variables: Mapping[str, Any],
    ) -> tuple[str, list[Span]]:
        if continue_final_message and add_generation_prompt:
            raise ChatTemplateError(
                "continue_final_message goes on with the last message, and add_generation_prompt "
                "begins another one: give one of them"
            )
        source, name = self._chosen(chat_template, tools is not None)
        with _said_of_input():
            conversation = prepared(messages, self.profile)
            schemas = tool_schemas(tools, self.profile)
            _check_documents(documents)
        # Transformers refuses it always; a template that reads no messages does not miss them.
        if not conversation and "messages" in source:
            raise ChatTemplateError("messages: an empty conversation; give at least one message")
        open_end = None
        if continue_final_message:
            field = continue_final_message if isinstance(continue_final_message, str) else "content"
            with _said_of_input():
                open_end = ContinueFinal.of(conversation, field, source, self.profile)
            conversation = open_end.messages
        context = {
            "messages": conversation,
            "tools": schemas,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
            **self.special_tokens,
            **variables,
        }
        text, spans = self._run(source, context, name)
        return (text, spans) if open_end is None else (open_end.cut(text), [])

    def _run(self, source: str, context: dict[str, Any], name: str) -> tuple[str, list[Span]]:
        isolates = self.isolate or not self._is_own(source)
        with _said_of_input():
            seen = plain(context) if self.profile == "hardened" or isolates else context
        if isolates:
            from streamdec.chat.isolated import render_isolated

            return render_isolated(
                source,
                seen,
                profile=self.profile,
                now=self._now,
                name=name,
                is_of_request=not self._is_own(source),
            )
        make = partial(compile_template, environment=self._environment, name=name)
        return render_compiled(self._compiled.get(source, make), seen, name)

    def _is_own(self, source: str) -> bool:
        """Whether ``source`` is a template of the model."""
        templates = self.templates
        return source in (templates.values() if isinstance(templates, dict) else (templates,))

    def _chosen(self, chat_template: str | None, with_tools: bool) -> tuple[str, str]:
        """The text of the template to render, and how messages call it."""
        if chat_template is not None and not isinstance(chat_template, str):
            raise ChatTemplateError(
                f"chat_template must be a name or a text, not {type(chat_template).__name__}"
            )
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
                    f"there are several templates and none is called 'default'; choose one by "
                    f"chat_template=…: {names}"
                )
        if chat_template is not None:
            return chat_template, "given for this rendering"
        if templates is None:
            told = "none was given; fallback='simple' renders lines of role and content"
            raise ChatTemplateError(f"no chat template: {told}")
        path = self.origin.path
        assert isinstance(templates, str)
        return templates, "" if path is None else str(path)

    # --- messages as OpenAI's clients write them --------------------------------------------------

    def content_format(
        self, *, chat_template: str | None = None, with_tools: bool = False
    ) -> ContentFormat:
        """What the template takes as content: ``"string"``, ``"parts"`` or ``"parts only"``.

        Told by what the template does with it, without rendering it. ``chat_template`` and
        ``with_tools`` choose among several templates as :meth:`render` does.

        Raises :class:`~streamdec.ChatTemplateError` for a template that cannot be parsed.

        >>> from streamdec.chat import ChatTemplate
        >>> ChatTemplate.from_snapshot("path/to/model").content_format()
        'string'
        """
        source, _ = self._chosen(chat_template, with_tools)
        return self._formats.get(source, self._format_of)

    def _format_of(self, source: str) -> ContentFormat:
        return content_format_of(check_template(self._environment, source).tree)

    def openai_messages(
        self,
        messages: Iterable[Any],
        *,
        chat_template: str | None = None,
        with_tools: bool = False,
        separator: str = "\n",
    ) -> list[dict[str, Any]]:
        r"""``messages`` of a client of OpenAI's API, as vLLM and SGLang give them to this template.

        Tool arguments that are a string are parsed; a list of parts becomes a string where the
        template takes no list, its texts joined by ``separator`` (SGLang's is a space); null
        content is empty, in the profile ``hardened`` not there. ``chat_template`` and
        ``with_tools`` choose among several templates. The result is for :meth:`render`.

        Raises :class:`~streamdec.ChatTemplateError`, which says in which message.

        >>> from streamdec.chat import ChatTemplate
        >>> template = ChatTemplate.from_snapshot("path/to/model")
        >>> content = [{"type": "text", "text": "Hi"}]
        >>> template.openai_messages([{"role": "user", "content": content}])
        [{'role': 'user', 'content': 'Hi'}]
        """
        found = self.content_format(chat_template=chat_template, with_tools=with_tools)
        return openai_messages(messages, found, profile=self.profile, separator=separator)


@contextmanager
def _said_of_input() -> Iterator[None]:
    """Within, whatever objects of callers raise when they are asked for what is in them is ours."""
    try:
        yield
    except ChatTemplateError:
        raise
    except RecursionError as error:
        raise ChatTemplateError(_ENDLESS) from error
    except (TypeError, ValueError) as error:
        raise ChatTemplateError(str(error)) from error
    except Exception as error:
        raise ChatTemplateError(f"{type(error).__name__} in what was given: {error}") from error


FROM_REQUEST = "CHAT_TEMPLATE_FROM_REQUEST"
_REFUSED = ("chat_template", "tokenize")
"""What a request must not choose by its variables: vLLM refuses both, SGLang the first."""


def _of_request(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the variables that a request brings. Raises :class:`~streamdec.ChatTemplateError`."""
    variables = dict(given or {})
    for name in _REFUSED:
        if name in variables:
            raise ChatTemplateError(
                f"template_kwargs may not have {name!r}: a request does not choose it; "
                "give it to render as an argument of its own if you want that",
                code=FROM_REQUEST,
            )
    for name in variables:
        if not isinstance(name, str):
            raise ChatTemplateError(f"template_kwargs has a key that is no string: {name!r:.80}")
    for name in _ARGUMENTS & variables.keys():
        told = f"template_kwargs may not have {name!r}: it is an argument of its own"
        raise ChatTemplateError(told)
    return variables


def _check_documents(documents: object) -> None:
    if documents is None:
        return
    if isinstance(documents, (str, bytes, Mapping)) or not isinstance(documents, Iterable):
        raise ChatTemplateError(f"documents must be a list, not {type(documents).__name__}")
    for index, document in enumerate(documents):
        if not isinstance(document, Mapping):
            told = f"documents[{index}] must be a dict, not {type(document).__name__}"
            raise ChatTemplateError(told)


def _check_option(name: str, value: object, known: Sequence[object]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, not {value!r:.40}")
