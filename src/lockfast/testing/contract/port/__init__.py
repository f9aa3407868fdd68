"""The port's contract: tests of what every engine must do, method by method."""
