"""Measure what a token costs, beside the tokenizer's library and beside engines' detokenizers.

    python -m benchmarks [--quick] [--tokenizer PATH] [--peers FOLDER] [--table NAME] [--json FILE]
    python -m benchmarks --write FILE

The rows of a table run in one process, in turns, on the same ids. A ratio compares two values of
the same round; the median of all rounds is shown. Times are CPU time of the thread, except in rows
that use threads. Texts are compared with Tokenizer.decode, and a wrong one is a failure.

With --peers the detokenizers of vLLM, SGLang, mlx-lm and transformers take part.
"python -m benchmarks.peers FOLDER" fetches them. --write puts the figures of a file from --json
into the documentation and the README.
"""
