"""Integrations: one module for each engine and each wire format."""
