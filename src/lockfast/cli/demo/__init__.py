"""The parts of `lockfast demo`: its worker processes, its temporary engine, and its display."""
