"""Tests of lockfast.testing."""
