"""Guards: they make a database, store, file or service reject writes of a process that has lost
its lock, by comparing fencing tokens.
"""
