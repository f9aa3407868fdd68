"""Torture: real servers, real clients, faults; and checkers over what was recorded."""
