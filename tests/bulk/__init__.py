"""Datasets: columns, tables and files of token ids.

Polars, Hugging Face datasets and Ray are tested where they are installed:

    pip install --group datasets && pytest tests/bulk
    pip install --group ray && pytest tests/bulk/test_ray.py
"""
