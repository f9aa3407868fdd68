"""The dashboard: the application, in a browser, mounted, and under load."""
