"""What a fleet takes: constants that `costs` measured, and a model that adds them up."""
