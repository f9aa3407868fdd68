"""The marks of a guarded SQLite database: the table, and the rule as SQL. No driver, no I/O."""
