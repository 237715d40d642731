"""The flag --feature-gates, and which values of gates Sampan accepts.

Sampan behaves as a real server with the default values does. Any gate can therefore be set to its default, as
configurations for several versions do, but to another value only if Sampan implements it: otherwise the component would
not do what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from sampan.api.feature_gates import BLANKET_GATES, IMPLEMENTED_GATES, FeatureGateError, FeatureGates
from sampan.api.kubernetes_version import MINOR_VERSION
from sampan.cli.flags import parsers
from sampan.machinery.cli_errors import CliError

FLAG = "--feature-gates"
STORAGE_VERSION_MIGRATOR = "StorageVersionMigrator"
"""The gate of the controller of StorageVersionMigrations, which the API server must serve."""
RUNTIME_CONFIG_GATES = frozenset(IMPLEMENTED_GATES)
"""The feature gates that accept any value. Their features work once --runtime-config enables their resources."""


def feature_gates(text: str) -> FeatureGates:
    """Parse `NAME=true,NAME=false`. Raise CliError for gates that do not exist, and for values that Kubernetes or
    Sampan does not support."""
    return check_gates(parsers.switches(FLAG, text))


def check_gates(settings: Mapping[str, bool]) -> FeatureGates:
    """Return the gates with these settings. Raise CliError as `feature_gates` does."""
    try:
        gates = FeatureGates(settings)
    except FeatureGateError as error:
        raise CliError(f"{FLAG}: {error}") from None
    _check_changes(gates)
    return gates


def _check_changes(gates: FeatureGates) -> None:
    """Raise CliError for a gate that does not have its default although Sampan implements only that one. Gates that are
    set by name come first; others have another value through AllAlpha or AllBeta."""
    if not gates.settings:
        return
    specs = dict(gates.specs())
    for name in (*gates.settings, *specs):
        default = specs[name].default
        if gates.is_enabled(name) == default or name in RUNTIME_CONFIG_GATES:
            continue
        cause = "" if name in gates.settings else f"{BLANKET_GATES[specs[name].stage]}: "
        state, version = "on" if default else "off", f"Kubernetes v{MINOR_VERSION}"
        raise CliError(f"{FLAG}: {cause}{name} is always {state} in Sampan, as it is by default in {version}")
