"""Create, update, patch and delete options, from the query or body, validated as in kube-apiserver."""

from dataclasses import dataclass
from typing import Any

from sampan.apiserver.call import Query
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.machinery import errors
from sampan.machinery.errors import FieldError, Path

_META_GROUP = "meta.k8s.io"
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan")
_MANAGER_MOST = 128


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


def write_options(kind: str, query: Query, *, is_apply: bool = False) -> WriteOptions:
    """Return the CreateOptions, UpdateOptions or PatchOptions, as `kind` names them. Raise Invalid for bad values."""
    if not query:
        return _DEFAULT if not is_apply else _checked_apply(query, WriteOptions())
    faults: list[FieldError] = []
    force = query.flag("force") if "force" in query else None
    manager = query.get("fieldManager")
    if kind == "PatchOptions":
        if is_apply and not manager:
            text = "is required for apply patch"
            faults.append(FieldError.required(Path("fieldManager"), text))
        if not is_apply and force is not None:
            faults.append(FieldError.forbidden(Path("force"), "may not be specified for non-apply patch"))
    faults += _manager_faults(manager)
    faults += _dry_run_faults(query.all("dryRun"))
    validation = query.get("fieldValidation")
    if validation not in _VALIDATIONS:
        faults.append(FieldError.not_supported(Path("fieldValidation"), validation, _VALIDATIONS))
    if faults:
        raise errors.invalid(kind, "", faults, group=_META_GROUP)
    return WriteOptions(bool(query.all("dryRun")), manager, validation or "Warn", force)


_DEFAULT = WriteOptions()


def _checked_apply(query: Query, options: WriteOptions) -> WriteOptions:
    error = FieldError.required(Path("fieldManager"), "is required for apply patch")
    raise errors.invalid("PatchOptions", "", [error], group=_META_GROUP)


def _manager_faults(manager: str) -> list[FieldError]:
    at = Path("fieldManager")
    faults: list[FieldError] = []
    if len(manager.encode()) > _MANAGER_MOST:
        faults.append(FieldError.too_long(at, _MANAGER_MOST))
    position = 0
    for char in manager:
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {position})"
            faults.append(FieldError.invalid(at, manager, text))
        position += len(char.encode())
    return faults


def _dry_run_faults(values: list[str]) -> list[FieldError]:
    if all(value == "All" for value in values):
        return []
    return [FieldError.not_supported(Path("dryRun"), values, ["All"])]


def delete_options_of_query(query: Query) -> DeleteOptions:
    grace = query.get("gracePeriodSeconds")
    return checked_delete_options(
        {
            "gracePeriodSeconds": _int(grace) if grace else None,
            "propagationPolicy": query.get("propagationPolicy") or None,
            "orphanDependents": query.flag("orphanDependents") if "orphanDependents" in query else None,
            "dryRun": query.all("dryRun"),
        }
    )


def checked_delete_options(value: dict[str, Any]) -> DeleteOptions:
    policy, orphan = value.get("propagationPolicy"), value.get("orphanDependents")
    faults: list[FieldError] = []
    at = Path("propagationPolicy")
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        faults.append(FieldError.invalid(at, policy, text))
    if policy is not None and policy not in _POLICIES:
        faults.append(FieldError.not_supported(at, policy, [*_POLICIES, "nil"]))
    faults += _dry_run_faults(value.get("dryRun") or [])
    if faults:
        raise errors.invalid("DeleteOptions", "", faults, group=_META_GROUP)
    preconditions = value.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=value.get("gracePeriodSeconds"),
        propagation_policy=policy or "",
        orphan_dependents=orphan,
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        dry_run=bool(value.get("dryRun")),
    )


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
