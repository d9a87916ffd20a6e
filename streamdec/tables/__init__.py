"""Transition tables: the text that each token id gives in each state.

On the bytes route, all streams of a tokenizer with equal options share one table.
"""
