"""A stream that moves between processes, and, in the group ``ray``, between actors::

pip install -e '.[test]' --group ray && pytest tests/integrations/moving
"""
