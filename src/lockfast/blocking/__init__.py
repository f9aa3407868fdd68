"""The blocking client, for threads."""
