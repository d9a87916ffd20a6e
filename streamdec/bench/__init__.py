"""Measure what a token costs and what is withheld, on any tokenizer.

The speed of a shared machine changes by the minute. So the compared cases take turns in one
process, and ratios compare two times of the same round. Times are CPU time of the thread.
``streamdec bench`` and the benchmark of the repository use these modules.
"""
