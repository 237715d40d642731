"""One module per kind: its `SERVED` says what is special about it. A kind without a module is served generically.

The table names the modules, so that a server that never sees a kind never imports it.
"""

from typing import Final

MODULES: Final[dict[tuple[str, str], str]] = {
    ("", "bindings"): "pod_binding",
    ("", "pods"): "pods",
    ("scheduling.k8s.io", "priorityclasses"): "priorityclasses",
}
