"""HTTP at the edge: from aiohttp's requests to calls, and from answers to bytes on the wire."""

from sampan.machinery import lean_aiohttp  # noqa: F401 - before anything here imports aiohttp
