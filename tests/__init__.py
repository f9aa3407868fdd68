"""The tests of lockfast."""
