"""What breaks, and what must not break with it: models, simulation, faults."""
