"""Benchmarks: each starts its own server, and measures all sides in turns, in one run."""
