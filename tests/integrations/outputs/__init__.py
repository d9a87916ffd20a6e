"""Outputs of engines as they were recorded, by engine and version, and what is to be read in them.

``data/NAME-VERSION.json`` has the outputs of streams, under the options with which a Reader reads
them. Each file says how it came to be.
"""
