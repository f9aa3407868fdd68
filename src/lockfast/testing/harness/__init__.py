"""The harness of the contract suite: one engine under test, with threads or asyncio."""
