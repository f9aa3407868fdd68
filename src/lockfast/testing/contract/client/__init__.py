"""The client's contract: what users see, on every engine."""
