"""One register per guard, for the story and the hammer: what a process there reads and writes."""
