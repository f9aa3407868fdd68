"""The report: from results and moments of runs to one page that a person reads."""
