"""The contract, by theme: each module is a class of tests, applied by subclassing it."""
