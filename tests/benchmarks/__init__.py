"""Measure what a token costs, compared with the library and with the detokenizers of engines.

    python -m tests.benchmarks [--suite {streams,bulk,frontend}] [--quick] [--check] [--json FILE]
                               [--tokenizer PATH] [--peers FOLDER] [--case NAME]

The suite "streams" (the default) measures decoding and the entry points, "bulk" decodes datasets,
and "frontend" measures a complete request, mainly its encoding. The modules bulk_cases and frontend
describe their suites.

With --peers the detokenizers of vLLM, SGLang, mlx-lm and transformers take part.
"python -m tests.benchmarks.peers FOLDER" installs them. "python -m tests.benchmarks.page FILE"
writes the JSON of such a run into the documentation: tables, pictures, and the JSON itself.

All decoders run in one process, in turns, on the same ids. A ratio compares two times of the same
round, and the median of all rounds is shown. Times are CPU time of the thread, except in cases that
name another clock. Each text that is timed is compared with Tokenizer.decode. A wrong text is a
failure, and so is a text that is withheld for a stop one character too long or too short.
"""
