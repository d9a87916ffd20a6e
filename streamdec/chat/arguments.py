"""Checks of what a caller gives to a rendering: variables, tools and documents.

In: arguments. Out: the same, checked, or a :class:`ChatTemplateError` that says what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamdec.errors import ChatTemplateError

FROM_REQUEST = "CHAT_TEMPLATE_FROM_REQUEST"
_REFUSED = frozenset(
    (
        *("chat_template", "tokenize"),  # as in vLLM and SGLang
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
    )
)
"""Variables that a request may not set."""
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
    except Exception as error:
        problem = f"messages, tools or variables: {type(error).__name__}: {error}"
        raise ChatTemplateError(problem) from error


def variables_of_request(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the variables that a request brings.

    Raises :class:`~streamdec.errors.ChatTemplateError` for a name that a request may not set.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ChatTemplateError(f"template_kwargs must be a dict, not {type(given).__name__}")
    variables = dict(given or {})
    for name in variables:
        if not isinstance(name, str):
            problem = f"the keys of template_kwargs must be strings, not {name!r:.80}"
            raise ChatTemplateError(problem)
        if name in _REFUSED:
            problem = f"template_kwargs must not have {name!r}: a request may not set it"
            raise ChatTemplateError(problem, code=FROM_REQUEST)
    return variables


def list_of_dicts(name: str, values: Iterable[Any] | None) -> list[Any] | None:
    """Return ``values``, the argument ``name``, as a list; None as None.

    Raises ChatTemplateError if it is not a list of dicts.
    """
    if values is None:
        return None
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ChatTemplateError(f"{name} must be a list of dicts, not {type(values).__name__}")
    found = []
    for index, value in enumerate(values):
        if not isinstance(value, Mapping):
            problem = f"{name}[{index}] must be a dict, not {type(value).__name__}"
            if callable(value):
                problem += "; transformers.utils.get_json_schema(function) returns one"
            raise ChatTemplateError(problem)
        found.append(value if isinstance(value, dict) else dict(value))
    return found
