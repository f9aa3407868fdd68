"""The commands of `lockfast`, one module each."""
