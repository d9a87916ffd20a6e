"""Fuzz targets that test the laws of streamdec; see README.md."""
