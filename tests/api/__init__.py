"""The record of the public API, and the test that compares it."""
