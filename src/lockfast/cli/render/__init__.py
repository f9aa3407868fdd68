"""What commands print: tables, graphs, JSON lines, and messages to people."""
