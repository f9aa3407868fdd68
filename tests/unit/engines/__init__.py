"""Tests of lockfast.engines, without servers."""
