"""Measurements behind the figures of the documents: `python -m benchmarks [NAME…]`."""
