"""Tests of lockfast.runtime."""
