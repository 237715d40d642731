"""One module per kind, named like its plural. Its `BEHAVIOR` declares its strategies, and its `HANDLERS` serve the
subresources that are not views of the object.

A kind without a module is served generically. A module is imported when its kind is used first. The counterpart is
`pkg/registry`, with the defaults of `pkg/apis/*/v1` and the validation of `pkg/apis/*/validation`.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from sampan.api.resources.resource_table import BUILT_IN
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior

_SAME_PLURAL = {("events.k8s.io", "events"): "events_v1"}
"""The modules of kinds whose plural another group has too."""


def find_behavior(group: str, plural: str) -> ResourceBehavior | None:
    """Return the behavior of a built-in kind; None if it has no module."""
    module = _import_kind(group, plural)
    if module is None:
        return None
    behavior: ResourceBehavior = module.BEHAVIOR
    return behavior


def find_handlers(group: str, plural: str) -> Handlers:
    """Return the handlers of a built-in kind, by subresource. Other kinds have none, and their names are not kept."""
    return _find_builtin_handlers(group, plural) if (group, plural) in _builtin_kinds() else {}


@cache
def _find_builtin_handlers(group: str, plural: str) -> Handlers:
    module = _import_kind(group, plural)
    handlers: Handlers = vars(module).get("HANDLERS", {}) if module is not None else {}
    return handlers


def _import_kind(group: str, plural: str) -> ModuleType | None:
    if (group, plural) not in _builtin_kinds():
        return None
    module = f"{__name__}.{_SAME_PLURAL.get((group, plural), plural)}"
    return import_module(module) if find_spec(module) is not None else None


@cache
def _builtin_kinds() -> frozenset[tuple[str, str]]:
    versions = BUILT_IN
    return frozenset((version.group, resource.plural) for version in versions for resource in version.resources)
