"""The output of commands: tables, graphs, JSON lines, and messages to people."""
