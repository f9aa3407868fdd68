"""What the contract suite runs on: one engine under test, with threads or asyncio."""
