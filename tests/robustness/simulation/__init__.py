"""The real client code on a virtual clock, against a simulated engine and network, by seeds.

`python -m tests.robustness.simulation --seed N` replays a seed with a trace.
"""
