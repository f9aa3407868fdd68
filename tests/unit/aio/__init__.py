"""Tests of lockfast.aio."""
