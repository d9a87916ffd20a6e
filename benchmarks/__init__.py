"""Measure what a token costs, beside the tokenizer's library.

    python -m benchmarks [--quick] [--tokenizer PATH] [--table NAME] [--json FILE]
    python -m benchmarks --write FILE

The rows of a table run in one process, in turns, on the same ids. A ratio compares two values of
the same round; the median of all rounds is shown. Times are CPU time of the thread. Texts are
compared with Tokenizer.decode, and a wrong one is a failure.

--write puts the figures of a file from --json into the documentation and the README.
"""
