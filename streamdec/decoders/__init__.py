"""Streams of token ids and of text, without I/O."""
