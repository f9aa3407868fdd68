"""Tests that `make wide` runs, and CI does not."""
