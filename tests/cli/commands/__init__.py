"""The commands that show what goes on: on real servers, and in a real terminal."""
