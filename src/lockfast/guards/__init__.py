"""The guards: what makes a protected resource refuse a holder that only believes it holds."""
