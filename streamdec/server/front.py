"""Make prompts and streams for requests, with a tokenizer and an engine.

In: requests that were read. Out: a :class:`~streamdec.TextStream` for each sample, and the run of
the engine behind it. Nothing here depends on HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from os.path import commonprefix
from typing import Any, NamedTuple, Protocol

import anyio

from streamdec.core.decode_options import UnknownIds
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.definitions import unfindable
from streamdec.core.sections import OPEN, PromptMarkers
from streamdec.core.stepping import decoder_behind
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.decoders.section_decoder import SectionDecoder
from streamdec.errors import ChatTemplateError, SourceError, StreamdecError
from streamdec.folders.tokenizer_config import ROLES
from streamdec.integrations._failures import REASONING
from streamdec.integrations.logprobs import LogprobTracker
from streamdec.locks import cached_property
from streamdec.server.admission import Admission
from streamdec.server.engine_run import EngineRun, engine_reader
from streamdec.server.engines import Engine
from streamdec.server.generation_requests import Chat, Generation, Prompt, check_sizes, too_long
from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError
from streamdec.server.slots import Slots
from streamdec.streams.outputs import OutputReader
from streamdec.streams.text_stream import TextStream, stream
from streamdec.tokenizers._chat import ChatRenderer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer
from streamdec.trace.tracer import Tracer

_log = logging.getLogger("streamdec.server")
_FIRST_CHAT = [{"role": "user", "content": "Hello"}]
LONGEST_MESSAGE = 500
"""The most code points of a template's error that clients get."""
_BUSY = "CHAT_TEMPLATE_BUSY"
"""The code of an error of :mod:`streamdec.chat.isolated`, which needs jinja2."""
_REFUSES = "CHAT_TEMPLATE_REFUSES"
"""The code of an error that the template itself raises, because of the messages."""
_USUAL_CHARACTERS = 4
"""Code points of a typical token."""
_SURELY_TOO_LONG = 1.5
"""If the beginning of a text exceeds the limit of tokens by this factor, so does the text."""
_TO_BE_TOLD = 5.0
"""How many seconds the clients of aborted streams have to read the last events."""


_Pairs = tuple[tuple[str | int, str | int], ...]


class Abortable(Protocol):
    """The answer to a request, which can be ended early."""

    def abort(self) -> None:
        """End the answer soon, with an error of the API."""
        ...


class Sample(NamedTuple):
    """One stream of a request, and the call of the engine behind it."""

    stream: TextStream[Any]
    run: EngineRun
    num_prompt_tokens: int
    """The tokens of the prompt, for the first sample of a prompt; 0 for the others."""

    @property
    def num_tokens(self) -> int:
        """The tokens of the prompt, and those that were generated so far."""
        machine = self.stream.decoder
        generated: int = decoder_behind(machine).num_tokens
        return self.num_prompt_tokens + generated


@dataclass(eq=False)
class Front:
    """The state that all requests of a server share."""

    tokenizer: LoadedTokenizer
    engine: Engine
    models: Sequence[str]
    """The names of the model. The first is the default."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    eos_token_ids: Sequence[int] = ()
    reasoning_markers: Sequence[tuple[str | int, str | int]] = ()
    separates_reasoning: bool = False
    """Whether chats and messages have the reasoning as a separate part."""
    has_simple_template: bool = False
    """Whether to render lines of role and content for a model without a chat template."""
    allows_templates: bool = False
    """Whether requests may have their own template."""
    isolates_templates: bool = False
    """Whether the model's own template is rendered in a child process, too."""
    unknown_ids: UnknownIds = "skip"
    """What to do with ids of the engine that the tokenizer does not have."""

    def __post_init__(self) -> None:
        most = getattr(self.engine, "max_concurrency", None)
        if most is not None and (type(most) is not int or most < 1):
            raise SourceError(
                f"max_concurrency of the engine must be an integer of at least 1, not {most!r:.40}"
            )
        concurrent = self.limits.concurrent if most is None else min(self.limits.concurrent, most)
        # A request with more samples would never get room.
        samples = min(self.limits.samples, concurrent)
        self.limits = limits = replace(self.limits, concurrent=concurrent, samples=samples)
        self.slots = Slots(limits.concurrent, limits.waiting_seconds)
        self.admission = Admission(limits, self.slots)
        self.vocab_size = self.tokenizer.vocab_size
        markers = chain(*self.reasoning_markers)
        self.skips_special_tokens = not any(unfindable(self.tokenizer, markers))
        """Whether requests skip special tokens if they do not say so."""
        self.gives_logprobs = bool(getattr(self.engine, "logprobs", False))
        self._answering: set[Abortable] = set()
        self._all_ended: anyio.Event | None = None
        self.template = self._template()
        """The model's template; None without one."""

    def _template(self) -> ChatRenderer | None:
        fallback: Any = "simple" if self.has_simple_template else None
        if not hasattr(self.tokenizer, "get_chat_template"):
            _log.warning("chats are not served: the tokenizer has no get_chat_template()")
            return None
        try:
            found = self.tokenizer.get_chat_template(fallback=fallback)
        except ChatTemplateError as error:
            _log.warning(
                "chats are not served: %s; or pass --chat-template to streamdec serve", error
            )
            return None
        if self.isolates_templates:
            apart: Any = copy(found)
            apart.isolate = True
            found = apart
        try:  # Report a broken template now. Some templates need more messages.
            found.render(_FIRST_CHAT, add_generation_prompt=True)
        except ChatTemplateError as error:
            _log.warning("the chat template cannot render a single message: %s", error)
        return found

    # --- prompts: these methods take time, and run in a worker of Admission

    def prompt_ids(self, prompt: Prompt, *, add_special_tokens: bool) -> list[int]:
        """Return the ids of a prompt.

        Raises RequestError if there are too many ids or none.
        """
        if prompt.text is None:
            return self._checked(list(prompt.token_ids), "prompt")
        return self._encoded(prompt.text, "prompt", add_special_tokens)

    def chat_ids(self, chat: Chat) -> list[int]:
        """Return the ids of a conversation. Raises RequestError if it cannot be rendered."""
        return self._encoded(self._rendered(chat), "messages", add_special_tokens=False)

    def chat_prompt(self, chat: Chat, asked: Generation) -> tuple[list[int], Generation]:
        """Return a conversation's ids, and ``asked`` with the start of its answer.

        The start is inside a pair of markers or outside. Only what the template adds after the
        messages decides whether it is inside the reasoning. A marker that a user wrote does not.
        """
        text = self._rendered(chat)
        ids = self._encoded(text, "messages", add_special_tokens=False)
        conditions, markers = asked.conditions, tuple(self.reasoning_markers)
        pairs = conditions.ignore_stops_between
        if conditions.starts_inside is not None:
            if pairs == markers:
                return ids, asked
            pairs = ()
        asks_sections = asked.separates_reasoning and asked.starts_in is None
        if not (pairs or asks_sections):
            return ids, asked
        try:
            before = self._rendered(chat.without_answer)
        except RequestError:
            return ids, asked
        added = text[len(commonprefix([before, text])) :]  # noqa: RUF071 (letters, not paths)
        added_ids = self.tokenizer.encode(added, add_special_tokens=False).ids
        if pairs:
            state = self._state_after(added_ids, pairs)
            conditions = replace(
                conditions,
                ignore_stops_between=_first(state, pairs),
                starts_inside=state != OPEN,
            )
        starts_in = self._state_after(added_ids, markers) if asks_sections else asked.starts_in
        return ids, replace(asked, conditions=conditions, starts_in=starts_in)

    def _state_after(self, token_ids: Sequence[int], pairs: _Pairs) -> int:
        """The pair of markers inside which a stream begins after these ids.

        Pairs are numbered from 1; ``OPEN`` means none.
        """
        return PromptMarkers(pairs, self.tokenizer).state_after(self.tokenizer, token_ids)

    def check_chat(self, chat: Chat) -> None:
        """Raise RequestError if ``chat`` has no template or one that is not allowed.

        A template of the request may be forbidden.
        """
        if chat.template is not None and not self.allows_templates:
            message = "this server does not render templates of requests"
            raise RequestError(message, param="chat_template", code="unsupported_parameter")
        if chat.template is None and self.template is None:
            message = "this model has no chat template: use /v1/completions"
            raise RequestError(message, param="messages", code="no_chat_template")

    def _rendered(self, chat: Chat) -> str:
        template = self.template if chat.template is None else self._for_requests
        assert template is not None
        try:
            check_sizes(chat.messages, self.limits)
            messages = template.openai_messages(
                chat.messages, chat_template=chat.template, with_tools=chat.tools is not None
            )
            return template.render(
                messages,
                chat_template=chat.template,
                tools=chat.tools,
                add_generation_prompt=chat.add_generation_prompt,
                continue_final_message=chat.continue_final_message,
                template_kwargs=chat.variables,
            )
        except ChatTemplateError as error:
            if error.code == _BUSY:
                raise RequestError(str(error), status=503, code="overloaded") from None
            if error.line is not None and error.code != _REFUSES and chat.template is None:
                where = getattr(template.origin, "path", None) or "the server's template"
                _log.warning("%s: the chat template failed in line %d", where, error.line)
            message = f"the messages cannot be rendered: {error}"[:LONGEST_MESSAGE]
            raise RequestError(message, param="messages", code="chat_template_error") from None

    @cached_property
    def _for_requests(self) -> ChatRenderer:
        """The renderer of requests' templates, which runs them in a child process."""
        from streamdec.chat import ChatTemplate

        tokens = self.tokenizer.special_tokens
        roles = {role: getattr(tokens, role) for role in ROLES}
        found: ChatRenderer = ChatTemplate(None, special_tokens=roles, isolate=True)
        return found

    def _encoded(self, text: str, param: str, add_special_tokens: bool) -> list[int]:
        encode = partial(self.tokenizer.encode, add_special_tokens=add_special_tokens)
        most = self.limits.prompt_tokens
        try:
            # For a text that is far too long, encoding the beginning is enough and faster.
            size = _USUAL_CHARACTERS * most
            while 2 * size < len(text):
                if len(encode(text[:size]).ids) > _SURELY_TOO_LONG * most:
                    raise too_long(f"more than {most}", self.limits, param)
                size *= 2
            found = encode(text)
        except StreamdecError as error:
            if isinstance(error, RequestError):
                raise
            message = f"{param} cannot be encoded: {error}"[:LONGEST_MESSAGE]
            raise RequestError(message, param=param) from None
        return self._checked(list(found.ids), param)

    def _checked(self, ids: list[int], param: str) -> list[int]:
        if not ids:
            raise RequestError(f"{param} has no tokens", param=param)
        if len(ids) > self.limits.prompt_tokens:
            raise too_long(str(len(ids)), self.limits, param)
        return ids

    def echo_of(self, prompt: Prompt, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of a prompt, without an unfinished character at its end."""
        if prompt.text is not None:
            return prompt.text
        decoder = DecodeStream(self.tokenizer, skip_special_tokens=skip_special_tokens)
        return "".join(decoder.step_batch(ids))

    # --- streams

    def samples(self, asked: Generation, prompts: Sequence[list[int]]) -> list[Sample]:
        """Return ``n`` streams for each prompt. They have not begun."""
        return [
            self._sample(asked, prompt, index) for prompt in prompts for index in range(asked.n)
        ]

    def _sample(self, asked: Generation, prompt: list[int], index: int) -> Sample:
        decoder = self._decoder(asked, prompt)
        tracker = None if asked.logprobs is None else LogprobTracker(decoder, prompt)
        run = self._run(asked, prompt, index, tracker)
        text = stream(
            run,
            decoder=tracker or decoder,
            return_token_ids=asked.return_token_ids,
            finish_reason="stop",  # the server ends a stream at max_tokens
        )
        return _sample(text, run, 0 if index else len(prompt))

    def traced(self, asked: Generation, prompt: list[int]) -> tuple[Sample, Tracer[Any]]:
        """Return a stream with a chunk for each token, and the tracer that records it."""
        tracer = Tracer(self._decoder(asked, prompt), prompt)
        run = self._run(asked, prompt, 0, None)
        text = stream(run, decoder=tracer, chunk_by="token", finish_reason="stop")
        return _sample(text, run, len(prompt)), tracer

    def _decoder(self, asked: Generation, prompt: list[int]) -> StopSequenceDecoder:
        options: dict[str, Any] = {
            "skip_special_tokens": asked.skip_special_tokens,
            "unknown_ids": self.unknown_ids,
        }
        if not asked.separates_reasoning:
            return StopSequenceDecoder(self.tokenizer, asked.conditions, prompt, **options)
        sections = {REASONING: _first(asked.starts_in, tuple(self.reasoning_markers))}
        starts = None if asked.starts_in is None else asked.starts_in != OPEN
        return SectionDecoder(
            self.tokenizer,
            asked.conditions,
            prompt,
            sections=sections,
            starts_inside=starts,
            **options,
        )

    def _run(
        self, asked: Generation, prompt: list[int], index: int, tracker: LogprobTracker | None
    ) -> EngineRun:
        call = partial(self.engine, list(prompt), asked.params(index))
        return EngineRun(call, None if tracker is None else tracker.put)

    # --- the end

    def begin(self, answer: Abortable) -> None:
        """Note that a request is being answered."""
        self._answering.add(answer)

    def end(self, answer: Abortable) -> None:
        """Note that a request was answered."""
        self._answering.discard(answer)
        if not self._answering and self._all_ended is not None:
            self._all_ended.set()

    async def shut_down(self, grace: float) -> None:
        """Reject new requests, and end the running ones.

        Aborts running requests after ``grace`` seconds, and waits for their end.
        """
        self.slots.close()
        if self._answering:
            _log.warning(
                "shutting down: running requests may take %g seconds more; a second signal ends "
                "the process at once",
                grace,
            )
        with anyio.move_on_after(grace):
            await self._end_of_all()
        for answer in self._answering:
            answer.abort()
        with anyio.move_on_after(_TO_BE_TOLD):
            await self._end_of_all()

    async def _end_of_all(self) -> None:
        self._all_ended = anyio.Event()
        if self._answering:
            await self._all_ended.wait()


def _sample(text: TextStream[Any], run: EngineRun, num_prompt_tokens: int) -> Sample:
    reader = text._reading.outputs
    assert isinstance(reader, OutputReader)
    engine_reader(reader)
    return Sample(text, run, num_prompt_tokens)


def _first(state: int | None, pairs: _Pairs) -> _Pairs:
    """Return ``pairs`` with pair number ``state`` (from 1) moved to the front.

    Returns ``pairs`` unchanged if ``state`` is 0 or None. ``starts_inside=True`` makes a stream
    begin inside the first pair.
    """
    rest = list(pairs)
    return (rest.pop(state - 1), *rest) if state else pairs
