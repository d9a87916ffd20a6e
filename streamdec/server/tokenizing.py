"""Endpoints that count, encode or decode tokens without the engine.

The paths and the fields are those of vLLM (``/tokenize``, ``/detokenize``), of Anthropic
(``/v1/messages/count_tokens``) and of OpenAI (``/v1/responses/input_tokens``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamdec.errors import StreamdecError
from streamdec.integrations._sending import Receive, Send
from streamdec.server.admission import Work
from streamdec.server.answers import send_json
from streamdec.server.fields import Fields
from streamdec.server.front import LONGEST_MESSAGE, Front
from streamdec.server.generation_requests import (
    Prompt,
    prompt_of_ids,
    read_chat,
    read_messages,
    served_model,
)
from streamdec.server.parameters import ANTHROPIC, CHAT, COMPLETION, RESPONSES, check_supported
from streamdec.server.problems import RequestError
from streamdec.server.response_requests import read_response


class _Told:
    """An answer that is complete: a JSON object."""

    num_tokens = 0
    """0, because the engine generates nothing."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    async def respond(
        self,
        _request_id: str,
        _receive: Receive,
        send: Send,
        _scope: Any,
        on_begin: Callable[[], object],
    ) -> None:
        """Send the answer."""
        on_begin()
        await send_json(send, 200, self._body)


class Tokenizing:
    """The endpoints of one server. Each method reads the fields of a body."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def tokenize(self, body: dict[str, Any], _request_id: str) -> Work:
        """``/tokenize``: the ids of a prompt, or of a conversation."""
        front, fields = self._front, Fields(body)
        served_model(fields, front.models)
        shows = fields.flag("return_token_strs")
        adds = fields.flag("add_special_tokens", default=True)
        prompt = fields.text("prompt")
        check_supported(fields, COMPLETION if fields.get("messages") is None else CHAT)
        if fields.get("messages") is not None:
            if prompt is not None:
                raise RequestError("expected prompt or messages, not both", param="prompt")
            chat = read_chat(body, front.limits)
            front.check_chat(chat)
            return Work(
                lambda: self._tokens(front.chat_ids(chat), shows),
                renders=True,
                is_isolated=chat.template is not None,
            )
        if prompt is None:
            raise RequestError("prompt must be a string", param="prompt")
        return Work(
            lambda: self._tokens(front.prompt_ids(Prompt(prompt), add_special_tokens=adds), shows)
        )

    def _tokens(self, ids: list[int], shows: bool) -> _Told:
        body: dict[str, Any] = {
            "count": len(ids),
            "max_model_len": self._front.limits.prompt_tokens,
            "tokens": ids,
            "token_strs": None,
        }
        if shows:
            body["token_strs"] = [self._front.tokenizer.id_to_token(each) for each in ids]
        return _Told(body)

    def detokenize(self, body: dict[str, Any], _request_id: str) -> Work:
        """``/detokenize``: the text of ids."""
        front, fields = self._front, Fields(body)
        served_model(fields, front.models)
        given = fields.get("tokens")
        if not isinstance(given, list):
            raise fields.wrong("tokens", "a list of token ids")
        ids = prompt_of_ids(given, front.vocab_size, front.limits, "tokens").token_ids

        def prepare() -> _Told:
            try:
                return _Told({"prompt": front.tokenizer.decode(ids, skip_special_tokens=False)})
            except StreamdecError as error:
                message = f"tokens cannot be decoded: {error}"[:LONGEST_MESSAGE]
                raise RequestError(message, param="tokens") from None

        return Work(prepare)

    def input_tokens(self, body: dict[str, Any], _request_id: str) -> Work:
        """OpenAI's ``/v1/responses/input_tokens``."""
        front = self._front
        served_model(Fields(body), front.models)
        check_supported(Fields(body), RESPONSES)
        chat, _ = read_response(body, front.limits)
        front.check_chat(chat)

        def prepare() -> _Told:
            count = len(front.chat_ids(chat))
            return _Told({"object": "response.input_tokens", "input_tokens": count})

        return Work(prepare, renders=True)

    def count_tokens(self, body: dict[str, Any], _request_id: str) -> Work:
        """Anthropic's ``/v1/messages/count_tokens``."""
        front = self._front
        served_model(Fields(body), front.models)
        check_supported(Fields(body), ANTHROPIC)
        chat, _ = read_messages({"max_tokens": 1, **body}, front.limits)
        front.check_chat(chat)
        return Work(lambda: _Told({"input_tokens": len(front.chat_ids(chat))}), renders=True)
