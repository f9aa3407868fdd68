"""The guards, on real resources."""
