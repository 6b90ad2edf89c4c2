"""Clients of the native protocol, synchronous and asyncio, over one core without I/O."""
