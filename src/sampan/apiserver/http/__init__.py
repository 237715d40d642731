"""HTTP at the edge: from aiohttp's requests to calls, and from answers to bytes on the wire."""
