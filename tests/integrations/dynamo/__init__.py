"""Dynamo: the worker by itself in every run, and in Dynamo's own runtime with ``nox -s dynamo``."""
