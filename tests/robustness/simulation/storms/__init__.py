"""Storms: a fleet of real clients and real replicas in virtual time, and what hits all at once."""

from tests.robustness.simulation.storms.many import run_many
from tests.robustness.simulation.storms.mutants import MUTANTS
from tests.robustness.simulation.storms.run import run

__all__ = ["MUTANTS", "run", "run_many"]
