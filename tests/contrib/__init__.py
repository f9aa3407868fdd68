"""The files for deployment in contrib."""
