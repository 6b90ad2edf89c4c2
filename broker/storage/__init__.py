"""The storage engine: synchronous and deterministic; it knows Disk and Clock, never asyncio."""
