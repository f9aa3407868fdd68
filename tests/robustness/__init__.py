"""Torture: models, a simulation, and checkers over what clients of real servers recorded."""
