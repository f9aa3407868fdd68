"""How locks and what is done to them are put into words, for the command line and the dashboard."""
