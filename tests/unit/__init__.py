"""Tests of one part each."""
