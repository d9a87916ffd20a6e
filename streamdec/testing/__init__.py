"""A conformance kit that checks any detokenizer against the stream guarantees.

In: a callable that makes a detokenizer (:class:`Detokenizer` is its interface). Out: a
:class:`Report` with the result of each known bug of other systems and each law.

    from streamdec.testing import check_detokenizer
    check_detokenizer(make).raise_for_failures()

The modules::

    checks              check_detokenizer
    bug_cases           bugs of other systems, as the bytes of their tokens
    laws                the guarantees of every stream
    trials              one example of a law
    expectations        the expected text, by the tokenizer's own decode
    subjects            tokenizers for the laws, and the kinds of their ids
    strategies          hypothesis strategies: token ids, cuts, prompts, stops
    detokenizers        the interface, and the function that runs a detokenizer
    conformance_report  the results

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
