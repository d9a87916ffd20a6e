"""Measuring: what a token costs and what is withheld, on any tokenizer.

A shared machine is faster and slower by the minute, so what is compared takes turns in one process,
and ratios are formed round by round. Times are CPU time of the thread.
"""
