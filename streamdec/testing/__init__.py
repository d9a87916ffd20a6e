"""A conformance kit that checks any detokenizer against the stream guarantees.

    from streamdec.testing import check_detokenizer
    check_detokenizer(make).raise_for_failures()

``make`` makes a :class:`Detokenizer`. The :class:`Report` has the result of each known bug of other
systems (``bug_cases``) and of each law of streams (``laws``, tested by ``trials`` with tokenizers
from ``subjects``).

The expected text of a law comes from the tokenizer's own ``decode``, cut by a plain search for
stops. That of a bug case is written down. No stream of streamdec is an oracle. Only this package
uses hypothesis (the extra ``testing``).
"""

from streamdec.testing import _requirements  # noqa: F401 (before anything that imports hypothesis)
from streamdec.testing.bug_cases import BugCase, bug_cases
from streamdec.testing.checks import Check, check_detokenizer, checks
from streamdec.testing.conformance_report import Report, Result
from streamdec.testing.detokenizers import Detokenizer, MakeDetokenizer, Request
from streamdec.testing.laws import LAWS, Law
from streamdec.testing.subjects import Subject, small_tokenizers

__all__ = [
    "LAWS",
    "BugCase",
    "Check",
    "Detokenizer",
    "Law",
    "MakeDetokenizer",
    "Report",
    "Request",
    "Result",
    "Subject",
    "bug_cases",
    "check_detokenizer",
    "checks",
    "small_tokenizers",
]
