"""Runs a command under a lease. Two processes watch the command and each other.

`lockfast` holds the lease. The watchdog, its child, is the parent of the command and all its
descendants. At the end, they leave no process of the command running.
"""
