"""What users hold in their hands, shared by threads and asyncio: each noun is written once."""
