"""The blocking client, for threads. Its public names are exported by `lockfast`."""
