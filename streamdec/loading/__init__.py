"""Load a tokenizer: find its file, recognise its format, choose the backend."""
