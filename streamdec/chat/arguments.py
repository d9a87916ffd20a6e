"""Checks of what a caller gives to a rendering: variables, documents and options.

In: arguments. Out: the same, checked, or a :class:`ChatTemplateError` that says what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamdec.errors import ChatTemplateError

FROM_REQUEST = "CHAT_TEMPLATE_FROM_REQUEST"
_REFUSED = ("chat_template", "tokenize")
"""Variables that a request may not set. vLLM and SGLang reject both."""
_ARGUMENTS = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message")
)
_ENDLESS = "messages, tools or variables: something contains itself, or is nested too deeply"


@contextmanager
def errors_of_input() -> Iterator[None]:
    """Raise any error of the block as a ChatTemplateError.

    Callers' objects may raise any error.
    """
    try:
        yield
    except ChatTemplateError:
        raise
    except RecursionError as error:
        raise ChatTemplateError(_ENDLESS) from error
    except (TypeError, ValueError) as error:
        raise ChatTemplateError(str(error)) from error
    except Exception as error:
        told = f"messages, tools or variables: {type(error).__name__}: {error}"
        raise ChatTemplateError(told) from error


def variables_of_request(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the variables that a request brings.

    Raises :class:`~streamdec.errors.ChatTemplateError` for a name that a request may not set.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ChatTemplateError(f"template_kwargs must be a dict, not {type(given).__name__}")
    variables = dict(given or {})
    for name in variables:
        if not isinstance(name, str):
            told = f"the keys of template_kwargs must be strings, not {name!r:.80}"
            raise ChatTemplateError(told)
        told = f"template_kwargs must not have {name!r}"
        if name in _REFUSED:
            told += ": a request may not set it. Remove it from the request"
            raise ChatTemplateError(told, code=FROM_REQUEST)
        if name in _ARGUMENTS:
            raise ChatTemplateError(f"{told}: pass it to render() as an argument")
    return variables


def check_documents(documents: object) -> None:
    """Raise ChatTemplateError if ``documents`` is not a list of dicts, or None."""
    if documents is None:
        return
    if isinstance(documents, (str, bytes, Mapping)) or not isinstance(documents, Iterable):
        raise ChatTemplateError(f"documents must be a list, not {type(documents).__name__}")
    for index, document in enumerate(documents):
        if not isinstance(document, Mapping):
            told = f"documents[{index}] must be a dict, not {type(document).__name__}"
            raise ChatTemplateError(told)


def checked_tools(tools: Iterable[Any] | None) -> list[Any] | None:
    """Return ``tools`` as a list of JSON schemas; None as None.

    Raises TypeError for other tools.
    """
    if tools is None:
        return None
    if isinstance(tools, (str, bytes, Mapping)):
        raise TypeError(f"tools must be a list of JSON schemas, not {type(tools).__name__}")
    return [_checked_tool(tool) for tool in tools]


def _checked_tool(tool: Any) -> Any:
    if isinstance(tool, Mapping):
        return tool if isinstance(tool, dict) else dict(tool)
    hint = "; transformers.utils.get_json_schema(function) returns one" if callable(tool) else ""
    raise TypeError(f"a tool must be a JSON schema (a dict), not {type(tool).__name__}{hint}")
