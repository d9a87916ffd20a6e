"""What counts as a token id, and the reports of ids that a tokenizer lacks."""

from __future__ import annotations

import logging
import operator
import weakref
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, SupportsIndex, TypeVar

from streamdec.errors import TokenIdError
from streamdec.mistakes import hint, shown
from streamdec.protocols import Decoder

logger = logging.getLogger("streamdec")


MAX_TOKEN_ID = 2**32 - 1
"""Token ids are u32 in every engine and in the ``tokenizers`` library."""

AT_INDEX = "the id at index"
"""What ``decode`` calls an id; a stream calls it a token."""


def check_token_id(
    token_id: SupportsIndex, index: int | None = None, *, what: str = "token"
) -> int:
    """Return ``token_id`` as an int, or raise TokenIdError.

    NumPy integers and similar objects are accepted, a ``bool`` is not. The error has ``index``,
    the place among the generated tokens, and calls the id ``what``.
    """
    if is_bool(token_id):
        raise _error(what, index, token_id, "is a bool")
    try:
        number = operator.index(token_id)
    except Exception:  # noqa: BLE001 (if it raises, it is not an integer)
        raise _error(what, index, token_id, f"is of type {type(token_id).__name__}") from None
    if 0 <= number <= MAX_TOKEN_ID:
        return number
    raise _error(what, index, token_id, "is out of range")


def is_bool(value: object) -> bool:
    """Whether ``value`` is a bool, Python's or NumPy's (``bool_`` before 2.0).

    Python's is an int, and NumPy's had ``__index__`` for years. Where a number is expected, both
    are mistakes.
    """
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _error(what: str, index: int | None, token_id: Any, problem: str) -> TokenIdError:
    place = "" if index is None else f" {index}"
    message = (
        f"{what}{place} {problem}: {shown(token_id, 24)}; "
        f"a token id is an integer from 0 to {MAX_TOKEN_ID}{hint('id', token_id)}"
    )
    return TokenIdError(message, token_id, index)


def as_prompt(prompt_token_ids: Iterable[SupportsIndex]) -> Sequence[SupportsIndex]:
    """Return the ids of a prompt as a sequence, as ``as_sequence`` does."""
    return as_sequence(prompt_token_ids, "prompt_token_ids must be a list or an array of ids")


def as_sequence(
    token_ids: Iterable[SupportsIndex], message: str = "token ids must be a list or an array"
) -> Sequence[SupportsIndex]:
    """Return ``token_ids`` as a sequence; lists and tuples are not copied.

    Raises TypeError, which begins with ``message``, for text, bytes, and collections without an
    order.
    """
    if isinstance(token_ids, (list, tuple)):
        return token_ids
    is_list = isinstance(token_ids, Iterable) or hasattr(token_ids, "__getitem__")
    if not is_list or isinstance(token_ids, (str, bytes, bytearray, Mapping, AbstractSet)):
        kind = type(token_ids).__name__
        raise TypeError(f"{message}, not {kind}{hint('ids', token_ids)}")
    for convert in ("to_pylist", "as_py"):  # arrays and rows of Arrow
        if hasattr(token_ids, convert):
            return list(getattr(token_ids, convert)())
    if hasattr(token_ids, "dtype"):  # NumPy's arrays, tensors, and columns of data frames
        check_dimensions(token_ids)
        if hasattr(token_ids, "tolist"):  # one transfer, if they are in the memory of a GPU
            return list(token_ids.tolist())
    return list(token_ids)


def check_dimensions(array: object) -> None:
    """Raise TypeError unless ``array`` has one dimension, or is no array."""
    dimensions = getattr(array, "ndim", 1)
    if dimensions != 1:
        message = f"an array of token ids must have one dimension, not {dimensions}"
        raise TypeError(message + hint("rows", array))


# --- ids that a tokenizer does not have -----------------------------------------------------------


def unknown_id(token_id: int, index: int) -> TokenIdError:
    """Return the error for an id that the tokenizer does not have."""
    return TokenIdError(
        f"token {index}: the tokenizer has no id {token_id}; check that tokenizer and model match, "
        "or pass unknown_ids='skip', which outputs nothing for it",
        token_id,
        index,
    )


T = TypeVar("T")


class ByObject(dict[int, T]):
    """Values of objects, by their ``id`` as long as they live."""

    def keep(self, owner: object, value: T) -> T:
        """Return the value that is kept for ``owner``: ``value``, if it is the first one.

        Without weak references to ``owner`` it is not kept.
        """
        with suppress(TypeError):
            weakref.finalize(owner, self.pop, id(owner), None)
            return self.setdefault(id(owner), value)
        return value


_logged: ByObject[set[str]] = ByObject()
"""What each tokenizer was warned about."""


def warn_once(tokenizer: Decoder, token_id: int) -> None:
    """Log that ``tokenizer`` does not have ``token_id``: once, for all unknown ids."""
    message = "has no id %d; unknown ids are counted in unknown_tokens, and not logged again"
    log_once(tokenizer, message, token_id)


def log_once(tokenizer: Decoder, message: str, *details: object) -> None:
    """Log ``message`` with its ``details`` as a warning about ``tokenizer``, once."""
    known = _logged.get(id(tokenizer))
    if known is None:
        known = _logged.keep(tokenizer, set())
    if message not in known:
        known.add(message)
        logger.warning("%.200r %s", tokenizer, message % details)
