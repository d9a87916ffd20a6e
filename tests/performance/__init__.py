"""The page on performance: its figures are those of the report beside it."""
