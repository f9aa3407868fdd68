"""Tests of what `make release` builds, and of the files that a repository's host reads."""
