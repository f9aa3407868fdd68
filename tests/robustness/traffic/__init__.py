"""Traffic: worker processes in both colours that use locks, write to a register, and record it."""
