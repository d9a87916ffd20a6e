"""The error and the log line for ids that a tokenizer does not have."""

from __future__ import annotations

import logging

from streamdec.core.warn_once import WarnOnce
from streamdec.errors import TokenIdError
from streamdec.protocols import Decoder

logger = logging.getLogger("streamdec")


def unknown_id(token_id: int, index: int) -> TokenIdError:
    """The error for an id that the tokenizer does not have."""
    return TokenIdError(
        f"token {index}: the tokenizer has no id {token_id}; check that tokenizer and model match, "
        "or pass unknown_ids='skip', which outputs nothing for it",
        token_id,
        index,
    )


_warned = WarnOnce()


def warn_once(tokenizer: Decoder, token_id: int) -> None:
    """Log that ``tokenizer`` does not have ``token_id``: once, for all unknown ids."""
    if _warned.first(tokenizer):
        logger.warning(
            "%.200r has no id %d; unknown ids are counted in unknown_tokens, and not logged again",
            tokenizer,
            token_id,
        )
