"""Tests of the migration pages: old locks and lockfast exclude each other in a cut-over."""
