"""Traffic: worker processes in both modes that use locks, write to a register, and record it."""
