"""What the contract suite runs on: one engine under test, in threads or asyncio."""
