"""Sampan: a complete Kubernetes in Python.

Layers, each seeing only those before it: `api` (types, no I/O), `machinery` (what every component shares), `storage`
(the durable store and the watch cache), and above them the components. `testing` and the command line put them
together.
"""

__version__ = "0.1.0"
