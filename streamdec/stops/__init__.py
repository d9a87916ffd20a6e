"""When a stream ends: conditions, and the matching of stops in its text."""
