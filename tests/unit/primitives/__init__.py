"""Tests of lockfast.primitives."""
