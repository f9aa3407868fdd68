"""What users' type checkers see; `make check` runs mypy over it."""
