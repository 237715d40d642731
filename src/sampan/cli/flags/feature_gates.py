"""The flags --feature-gates, --emulated-version and --min-compatibility-version, and which values Sampan accepts.

Sampan behaves as a real server with the default values of its level does. Any gate can therefore be set to its default,
as configurations for several versions do, but to another value only if Sampan implements it: otherwise the component
would not do what was asked. The counterpart is `k8s.io/component-base/compatibility`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sampan.api.feature_gates import (
    BLANKET_GATES,
    IMPLEMENTED_GATES,
    LEVEL,
    LEVELS,
    FeatureGateError,
    FeatureGates,
)
from sampan.api.kubernetes_version import MAJOR
from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.machinery.cli_errors import CliError

FLAG = "--feature-gates"
EMULATED_VERSION, MIN_COMPATIBILITY_VERSION = "--emulated-version", "--min-compatibility-version"
STORAGE_VERSION_MIGRATOR = "StorageVersionMigrator"
"""The gate of the controller of StorageVersionMigrations, which the API server must serve."""
COMPONENT = "kube"
"""The component whose version and gates the flags set, as kube-apiserver calls it."""

VERSION_FLAGS = (
    Flag(
        name=EMULATED_VERSION,
        help=f"Version of Kubernetes whose APIs, features and defaults apply, from {MAJOR}.{LEVELS[0]} to "
        f"{MAJOR}.{LEVEL}, as 1.36 or kube=1.36. Default: {MAJOR}.{LEVEL}.",
        metavar="V",
        is_repeatable=True,
    ),
    Flag(
        name=MIN_COMPATIBILITY_VERSION,
        help="Oldest version that must be able to read what is stored, as 1.35 or kube=1.35. Default: the version "
        f"before the emulated one, or {MAJOR}.{LEVELS[0]}.",
        metavar="V",
        is_repeatable=True,
    ),
)
GATES_FLAG = Flag(
    name=FLAG,
    help="Feature gates of Kubernetes, for example HPAScaleToZero=false; `sampan gates` lists them. Gates that Sampan "
    "does not implement can only have their default.",
    default="",
    metavar="K=V,…",
)


def effective_gates(options: Mapping[str, Any]) -> FeatureGates:
    """Return the gates of a component with these flags. Raise CliError, with the messages of Kubernetes, for versions
    and gates that do not exist or do not fit together."""
    if version := options.get("kubernetes_version"):
        return feature_gates(options["feature_gates"], level=_minor("--kubernetes-version", version))
    level = _version(EMULATED_VERSION, options.get("emulated_version") or ())
    min_compatibility = _version(MIN_COMPATIBILITY_VERSION, options.get("min_compatibility_version") or ())
    return feature_gates(options["feature_gates"], level=level or LEVEL, min_compatibility=min_compatibility)


def feature_gates(text: str, *, level: int = LEVEL, min_compatibility: int | None = None) -> FeatureGates:
    """Parse `NAME=true,NAME=false`. Raise CliError for gates that do not exist, and for values that Kubernetes or
    Sampan does not support."""
    settings = parsers.switches(FLAG, ",".join(part.strip().removeprefix(f"{COMPONENT}:") for part in text.split(",")))
    foreign = next((name.partition(":")[0] for name in settings if ":" in name), None)
    if foreign is not None:
        raise CliError(f"{FLAG}: component not registered: {foreign}")
    return check_gates(settings, level=level, min_compatibility=min_compatibility)


def check_gates(
    settings: Mapping[str, bool], *, level: int = LEVEL, min_compatibility: int | None = None
) -> FeatureGates:
    """Return the gates with these settings. Raise CliError as `feature_gates` does."""
    try:
        gates = FeatureGates(settings, level=level, min_compatibility=min_compatibility)
    except FeatureGateError as error:
        raise CliError(f"{FLAG}: {error}") from None
    _check_versions(gates)
    try:
        gates.check_dependencies()
    except FeatureGateError as error:
        raise CliError(f"{FLAG}: {error}") from None
    _check_changes(gates)
    return gates


def _version(flag: str, values: Iterable[str]) -> int | None:
    """Return the minor version that a flag gives, None if it gives none."""
    versions: dict[str, str] = {}
    for value in (part for text in values for part in text.split(",") if part):
        name, separator, version = value.partition("=")
        name, version = (name, version) if separator else (COMPONENT, value)
        if name in versions:
            raise CliError(f"{flag}: duplicate version flag, {name}={versions[name]} and {name}={version}")
        versions[name] = version
    foreign = next((name for name in versions if name != COMPONENT), None)
    if foreign is not None:
        raise CliError(f"{flag}: component not registered: {foreign}")
    return _minor(flag, versions[COMPONENT]) if versions else None


def _minor(flag: str, text: str) -> int:
    """Return the minor version of a version such as 1.36; of versions without a level, a number that is none."""
    parsed = re.fullmatch(r"v?(\d+)((?:\.\d+)*)", text)
    if parsed is None:
        raise CliError(f'{flag}: could not parse "{text}" as version')
    numbers = [int(number) for number in (parsed[1] + parsed[2]).split(".")]
    if len(numbers) == 1:
        raise CliError(f'{flag}: illegal version string "{text}"')
    if len(numbers) > 2:
        raise CliError(f"{flag}: patch version not allowed, got: {COMPONENT}={text}")
    if numbers[0] != int(MAJOR):
        raise CliError(f"{flag}: emulation version {text} is not between [{_name(LEVELS[0])}, {_name(LEVEL)}.0]")
    return numbers[1]


def _name(minor: int) -> str:
    return f"{MAJOR}.{minor}"


def _check_versions(gates: FeatureGates) -> None:
    """Raise CliError if Sampan cannot emulate the version, or be compatible with the minimal one."""
    errors = []
    if gates.level not in LEVELS:
        errors.append(f"emulation version {_name(gates.level)} is not between [{_name(LEVELS[0])}, {_name(LEVEL)}.0]")
    if not LEVELS[0] <= gates.min_compatibility_level <= min(gates.level, LEVEL):
        limits = f"[{_name(LEVELS[0])}, {_name(min(gates.level, LEVEL))}]"
        errors.append(f"minCompatibilityVersion version {_name(gates.min_compatibility_level)} is not between {limits}")
    if gates.level > LEVEL:
        del errors[1:]
    if errors:
        flag = MIN_COMPATIBILITY_VERSION if gates.level in LEVELS else EMULATED_VERSION
        message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise CliError(f"{flag}: {message}")


def _check_changes(gates: FeatureGates) -> None:
    """Raise CliError for a gate that does not have its default although Sampan implements only that one. Gates that are
    set by name come first; others have another value through AllAlpha or AllBeta."""
    if not gates.settings:
        return
    specs = dict(gates.specs())
    for name in (*gates.settings, *specs):
        default = specs[name].default
        if gates.is_enabled(name) == default or name in IMPLEMENTED_GATES:
            continue
        cause = "" if name in gates.settings else f"{BLANKET_GATES[specs[name].stage]}: "
        state, version = "on" if default else "off", f"Kubernetes v{_name(gates.level)}"
        raise CliError(f"{FLAG}: {cause}{name} is always {state} in Sampan, as it is by default in {version}")
