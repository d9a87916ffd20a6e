"""The error and the log line for ids that a tokenizer does not have."""

from __future__ import annotations

import logging

from streamdec.errors import TokenIdError
from streamdec.protocols import Decoder
from streamdec.tables.warn_once import WarnOnce

logger = logging.getLogger("streamdec")


def unknown_id(token_id: int, index: int) -> TokenIdError:
    """The error for an id that the tokenizer does not have."""
    return TokenIdError(
        f"token {index}: the tokenizer has no id {token_id}; "
        "unknown_ids='skip' outputs nothing for it, 'replace' outputs U+FFFD",
        token_id,
        index,
    )


_warned = WarnOnce()


def warn_once(tokenizer: Decoder, token_id: int) -> None:
    """Log that ``tokenizer`` does not have ``token_id``: once, for all unknown ids."""
    if _warned.first(tokenizer):
        logger.warning("%.200r has no id %d; unknown ids are counted", tokenizer, token_id)
