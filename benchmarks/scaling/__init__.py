"""Fleets of a size that fits one machine: what each of them takes, to compare with the model."""
