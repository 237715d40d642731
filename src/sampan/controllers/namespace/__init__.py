"""namespace-controller: empties a namespace that is being deleted, tells what is in the way, and lets it go.

`content` decides what is left and when to look again, `conditions` how that is told, `controller` acts.
"""

from sampan.controllers.namespace.controller import NamespaceController, make

__all__ = ["NamespaceController", "make"]
