"""Ctrl-C and cancellations at random moments of acquire and release: nothing stays behind."""
