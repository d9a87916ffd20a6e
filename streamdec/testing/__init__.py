"""A conformance kit: whether a detokenizer, of any engine, does what the laws of streams say.

In: a callable that makes a detokenizer (:class:`Detokenizer` says what that must have). Out: a
:class:`Report`: each bug that other systems had and each law, passed, failed with the smallest
example that was found, or skipped.

    from streamdec.testing import check_detokenizer
    check_detokenizer(make).raise_for_failures()

Where what is::

    checks         check_detokenizer
    bug_cases      bugs of other systems, as the bytes of their tokens
    laws           what holds for every stream, and on what it is tried
    expectations   what the text must be, by the tokenizer's own decode
    subjects       tokenizers to try a law on, and which of their ids are of what kind
    strategies     hypothesis strategies: token ids, cuts, prompts, stops
    detokenizers   the interface, and how it is driven
    report         the results

The judge is the tokenizer's own library, never a machine of streamdec. hypothesis enters streamdec
here and nowhere else, as the extra ``testing``.
"""

from streamdec.testing import _requirements  # noqa: F401 (before anything that imports hypothesis)
from streamdec.testing.bug_cases import BugCase, bug_cases
from streamdec.testing.checks import Check, check_detokenizer, checks
from streamdec.testing.detokenizers import Detokenizer, MakeDetokenizer, Request
from streamdec.testing.laws import LAWS, Law
from streamdec.testing.report import Report, Result
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
