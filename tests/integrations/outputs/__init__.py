"""Recorded outputs of engines, by engine and version, and the expected ids.

``data/NAME-VERSION.json`` has the outputs of streams, under the options with which a Reader reads
them. Each file says how it came to be.
"""
