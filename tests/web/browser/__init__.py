"""The dashboard in Chromium."""
