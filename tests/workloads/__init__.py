"""Many random workloads on every shape of lock."""
