"""From a path to a tokenizer: what a file is (detect), and which backend serves it (factory)."""
