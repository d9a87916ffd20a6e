"""Dynamo: the worker by itself in every run, and in Dynamo's own runtime in the group ``dynamo``.

Its packages go in without their dependencies, one of which is a placeholder::

    pip install --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1
    pip install -e '.[test]' --group dynamo && pytest tests/integrations/dynamo
"""
