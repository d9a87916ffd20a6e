"""Datasets: columns, tables and files of token ids.

Polars and Hugging Face datasets are tried where they are installed, and Ray likewise:

    pip install --group datasets && pytest tests/bulk
    pip install --group ray && pytest tests/bulk/test_ray.py
"""
