"""Pure rules: no clock, no thread, no input or output. Every `now` is an argument."""
