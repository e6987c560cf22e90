"""Benchmarks, beside other programs and one's own."""
