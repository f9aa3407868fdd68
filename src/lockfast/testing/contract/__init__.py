"""The contract by theme: each module has classes of tests, which an engine's tests subclass."""
