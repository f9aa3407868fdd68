"""Guarded writes against bare ones, one module for each kind of resource."""
