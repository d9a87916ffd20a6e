"""Load a tokenizer: find its file, recognise the format, and make the tokenizer of a backend."""
