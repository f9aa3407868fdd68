"""A command under a lease: two processes that watch it and each other, and leave nothing of it.

`lockfast` holds the lease; the watchdog, its child, has the command and all its descendants.
"""
