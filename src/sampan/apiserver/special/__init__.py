"""Paths that are no resources: discovery, OpenAPI, health, metrics, version. One handler each, `(call) -> Answer`.

What belongs here is what the server says about itself. Documents are made when they are first asked for and kept until
the set of resources changes; nothing is done at start.
"""

from sampan.apiserver.special.health import Check
from sampan.apiserver.special.routes import Special, special_paths

__all__ = ["Check", "Special", "special_paths"]
