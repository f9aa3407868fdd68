"""Metrics, spans, logs, and the dashboard that shows them."""
