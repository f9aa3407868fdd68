"""The port's contract: what every engine must do, method by method."""
