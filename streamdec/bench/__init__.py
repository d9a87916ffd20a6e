"""Measure the cost of a token, for ``streamdec bench`` and the benchmarks."""
