"""When a stream ends: conditions, and the matching of stops in its text.

``stop_regex`` needs the ``regex`` library; the rest needs no library.
"""
