"""The two colours: threads and asyncio. Shared code sees only the `Runtime` of `runtime.base`."""
