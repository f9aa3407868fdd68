"""Tests of lockfast.claims."""
