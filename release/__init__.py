"""What `make release` does: the packages, their checks, and the programs that try them."""
