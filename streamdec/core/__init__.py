"""The core, without I/O: token ids in, text out."""
