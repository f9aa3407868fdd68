"""Tests of lockfast.nouns."""
