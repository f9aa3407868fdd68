"""Threads and asyncio behind one interface: shared code sees only `runtime.base.Runtime`."""
