"""Benchmarks: each starts its own server, and measures both sides in one run."""
