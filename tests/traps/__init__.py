"""One test per trap of docs/explanation/traps.md. The number in a name is the trap's."""
