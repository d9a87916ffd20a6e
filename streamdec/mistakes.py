"""Errors that say what to write instead, for mistakes that people have made.

All other wrong arguments get Python's own error, or one that names what was expected.
"""

from __future__ import annotations


def check_flag(name: str, value: object) -> bool:
    """Return the option ``name``. Raises TypeError if it is not a bool.

    Other values may not mean what they are taken for: the text "false" is true.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r:.40}")
    return value


def not_conditions(given: object) -> TypeError:
    """Return the error for ``given``, which was passed as conditions."""
    is_text = isinstance(given, str) or (
        isinstance(given, (list, tuple, set)) and all(isinstance(each, str) for each in given)
    )
    if is_text:
        hint = "; write stop=..."
    elif hasattr(given, "decode") and not isinstance(given, bytes):
        hint = "; the tokenizer comes first"
    elif isinstance(given, (list, tuple)) or hasattr(given, "tolist"):
        hint = "; write prompt_token_ids=... for the ids of the prompt"
    else:
        hint = ""
    return TypeError(f"conditions must be StopConditions, not {given!r:.80}{hint}")
