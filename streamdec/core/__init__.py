"""Streams of token ids and of text. No I/O, and no other library (but ``regex`` for stop_regex)."""
