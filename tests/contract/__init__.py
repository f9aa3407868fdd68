"""The contract, applied to each engine in each mode."""
