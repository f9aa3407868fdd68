"""Integrations, with the real frameworks in real worker processes on real servers."""
