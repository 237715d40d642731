"""The Kubernetes API as Python types: structs per group and version, schemas, names, quantities, selectors, codecs.

Pure data and pure functions: no I/O, no clock, no asyncio. Imports nothing else of Sampan.
"""
