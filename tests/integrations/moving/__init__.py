"""A stream that moves between processes, and, with ``nox -s ray``, between actors."""
