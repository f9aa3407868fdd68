"""The clients in other languages, with their own tests."""
