"""Locks, leases and elections, written once as coroutines. `blocking` and `aio` wrap them."""
