"""`kubectl set`: change a feature of objects, one module per feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sampan.kubectl.command import LateGroup

FEATURES: Mapping[str, tuple[str, Sequence[str]]] = {
    "env": ("env", ()),
    "image": ("image", ()),
    "resources": ("resources", ()),
    "selector": ("selector", ()),
    "serviceaccount": ("service_account", ("sa",)),
    "subject": ("subject", ()),
}
"""The module and the aliases of each subcommand of `kubectl set`."""


command = LateGroup(
    "set",
    package=__name__,
    modules=FEATURES,
    help="Change a feature of objects: environment, image, resources, selector and so on.",
)
