"""One test per trap that others fell into: TRAPS.md says which. The number in a name is its."""
