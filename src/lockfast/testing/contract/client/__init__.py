"""The client's contract: tests of what users see, for every engine."""
