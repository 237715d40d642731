"""The options of reads and writes, from the query string or the body, validated as in kube-apiserver."""

import random
from dataclasses import dataclass
from typing import Any

from sampan.api.field_errors import FieldError, FieldPath
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.selectors import fields, labels
from sampan.api.values import integers
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.request import bodies
from sampan.apiserver.request.call import Call, Query
from sampan.machinery import errors
from sampan.storage.cacher import ListQuery, ObjectSelection, WatchQuery
from sampan.storage.cacher import list_options as list_options

_META_GROUP = "meta.k8s.io"
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan")
_MAX_MANAGER_BYTES = 128


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool | None = None


def write_options(kind: str, query: Query, *, is_apply: bool = False) -> WriteOptions:
    """Return the CreateOptions, UpdateOptions or PatchOptions, as `kind` names them. Raise Invalid for bad values."""
    if not query:
        if is_apply:
            raise _missing_manager_error()
        return _DEFAULT
    field_errors: list[FieldError] = []
    force = query.flag("force") if "force" in query else None
    manager = query.get("fieldManager")
    if kind == "PatchOptions":
        if is_apply and not manager:
            text = "is required for apply patch"
            field_errors.append(FieldError.required(FieldPath("fieldManager"), text))
        if not is_apply and force is not None:
            field_errors.append(FieldError.forbidden(FieldPath("force"), "may not be specified for non-apply patch"))
    field_errors += _manager_errors(manager)
    field_errors += _dry_run_errors(query.get_all("dryRun"))
    validation = query.get("fieldValidation")
    if validation not in _VALIDATIONS:
        field_errors.append(FieldError.not_supported(FieldPath("fieldValidation"), validation, _VALIDATIONS))
    if field_errors:
        raise errors.invalid(kind, "", field_errors, group=_META_GROUP)
    return WriteOptions(bool(query.get_all("dryRun")), manager, validation or "Warn", force)


_DEFAULT = WriteOptions()


def _missing_manager_error() -> errors.ApiError:
    error = FieldError.required(FieldPath("fieldManager"), "is required for apply patch")
    return errors.invalid("PatchOptions", "", [error], group=_META_GROUP)


def _manager_errors(manager: str) -> list[FieldError]:
    path = FieldPath("fieldManager")
    field_errors: list[FieldError] = []
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        field_errors.append(FieldError.too_long(path, _MAX_MANAGER_BYTES))
    position = 0
    for char in manager:
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {position})"
            field_errors.append(FieldError.invalid(path, manager, text))
        position += len(char.encode())
    return field_errors


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    if all(value == "All" for value in values):
        return []
    return [FieldError.not_supported(FieldPath("dryRun"), values, ["All"])]


UNSAFE_DELETE = "ignoreStoreReadErrorWithClusterBreakingPotential"


def delete_options_of_query(query: Query, *, allows_unsafe: bool = False) -> DeleteOptions:
    uid = query.get("uid")
    return parse_delete_options(
        {
            "gracePeriodSeconds": int_parameter(query, "gracePeriodSeconds"),
            "preconditions": {"uid": uid} if uid else None,
            "propagationPolicy": query.get("propagationPolicy") if "propagationPolicy" in query else None,
            "orphanDependents": query.flag("orphanDependents") if "orphanDependents" in query else None,
            "dryRun": query.get_all("dryRun"),
            UNSAFE_DELETE: query.flag(UNSAFE_DELETE),
        },
        allows_unsafe=allows_unsafe,
    )


def parse_delete_options(value: dict[str, Any], *, allows_unsafe: bool = False) -> DeleteOptions:
    """Return the options. `allows_unsafe` is whether AllowUnsafeMalformedObjectDeletion is enabled; otherwise
    read errors cannot be ignored."""
    policy, orphan = value.get("propagationPolicy"), value.get("orphanDependents")
    field_errors: list[FieldError] = []
    path = FieldPath("propagationPolicy")
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        field_errors.append(FieldError.invalid(path, policy, text))
    if policy is not None and policy not in _POLICIES:
        field_errors.append(FieldError.not_supported(path, policy, [*_POLICIES, "nil"]))
    field_errors += _dry_run_errors(value.get("dryRun") or [])
    is_unsafe = allows_unsafe and bool(value.get(UNSAFE_DELETE))
    if is_unsafe:
        field_errors += [
            FieldError.invalid(FieldPath(UNSAFE_DELETE), True, f"cannot be set together with .{name}")
            for name in ("propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
            if value.get(name) is not None
        ]
    if field_errors:
        raise errors.invalid("DeleteOptions", "", field_errors, group=_META_GROUP)
    preconditions = value.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=value.get("gracePeriodSeconds"),
        propagation_policy=policy or "",
        orphan_dependents=orphan,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(value.get("dryRun")),
        ignores_read_errors=is_unsafe,
    )


def check_collection_delete_options(opts: DeleteOptions) -> None:
    """Raise Invalid for options that are allowed only for the deletion of a single object."""
    if opts.ignores_read_errors:
        text = "is not allowed with DELETECOLLECTION, try again after removing the option"
        field_errors = [FieldError.invalid(FieldPath(UNSAFE_DELETE), True, text)]
        raise errors.invalid("DeleteOptions", "", field_errors, group=_META_GROUP)


_RANDOM = random.Random()
"""A private random number generator, because tests seed the shared one."""

_MIN_WATCH_TIMEOUT_S = 1800
"""The minimum timeout of a watch that sets none, as in kube-apiserver: the actual timeout is random, up to twice as
long, so that clients do not reconnect all at once."""


def selection_of(call: Call) -> ObjectSelection:
    query = call.query
    try:
        by_label = labels.parse(query.get("labelSelector")) if query.get("labelSelector") else None
    except labels.SelectorError as error:
        raise errors.bad_request(str(error)) from None
    by_field = _field_terms(call, query.get("fieldSelector")) if query.get("fieldSelector") else ()
    return ObjectSelection(namespace=call.namespace, name=call.name, labels=by_label, fields=by_field)


def _field_terms(call: Call, text: str) -> tuple[fields.FieldTerm, ...]:
    try:
        selector = fields.parse(text)
        selector.check(_selectable(call.resource))
    except fields.FieldSelectorError as error:
        raise errors.bad_request(str(error)) from None
    names = [value for field, value in selector.exact() if field == "metadata.name"]
    if call.name and any(name != call.name for name in names):
        raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    return selector.terms


def _selectable(resource: Resource | None) -> list[str] | None:
    """Return the supported field selector fields; None for a built-in kind without specific ones."""
    if resource is None or not (resource.selectable or resource.is_custom):
        return None
    metadata = ("metadata.name",) if resource.is_custom and not resource.namespaced else fields.METADATA_FIELDS
    return [*metadata, *[field.label for field in resource.selectable]]


def parse_list_options(call: Call, *, is_watch: bool) -> list_options.ListWatchOptions:
    query = call.query
    options = list_options.apply_defaults(
        list_options.ListWatchOptions(
            is_watch=is_watch,
            resource_version=query.get("resourceVersion"),
            match=query.get("resourceVersionMatch"),
            continue_token=query.get("continue"),
            send_initial_events=query.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
        )
    )
    if field_errors := list_options.validate_options(options):
        raise errors.invalid("ListOptions", "", field_errors, group="meta.k8s.io")
    return options


def list_query(call: Call) -> ListQuery:
    query = call.query
    if not query:
        return ListQuery(ObjectSelection(namespace=call.namespace))
    options = parse_list_options(call, is_watch=False)
    int_parameter(query, "timeoutSeconds")
    return ListQuery(
        selection=selection_of(call),
        resource_version=options.resource_version,
        match=options.match,
        limit=int_parameter(query, "limit") or 0,
        continue_token=options.continue_token,
    )


def watch_query(call: Call) -> WatchQuery:
    # a path below /watch/ is a watch without the parameter, but its options are validated as those of a list then
    options = parse_list_options(call, is_watch=call.query.flag("watch"))
    timeout = int_parameter(call.query, "timeoutSeconds") or 0
    int_parameter(call.query, "limit")
    return WatchQuery(
        selection=selection_of(call),
        resource_version=options.resource_version,
        send_initial_events=options.send_initial_events,
        allow_bookmarks=call.query.flag("allowWatchBookmarks"),
        timeout_s=timeout if timeout > 0 else _MIN_WATCH_TIMEOUT_S * (1 + _RANDOM.random()),
    )


def int_parameter(query: Query, name: str) -> int | None:
    """Return a number of the query, or None if it is absent. Raise BadRequest for anything but a 64-bit integer."""
    if name not in query:
        return None
    text = query.get(name)
    number = integers.parse_int64(text)
    if number is None:
        why = "value out of range" if integers.is_integer(text) else "invalid syntax"
        raise errors.bad_request(f"strconv.ParseInt: parsing {gotext.quote(text)}: {why}")
    return number


_OPTIONS_KINDS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def admission_options(operation: str, call: Call) -> dict[str, Any] | None:
    """Return the options of a request as admission webhooks see them, or None for a connection."""
    kind = _OPTIONS_KINDS.get(operation)
    if kind is None:
        return None
    value: dict[str, Any] = {"kind": kind, "apiVersion": f"{_META_GROUP}/v1"}
    query = call.query
    if operation == "DELETE":
        return {**value, **_delete_options_value(call)}
    if query.get_all("dryRun"):
        value["dryRun"] = query.get_all("dryRun")
    for name in ("fieldManager", "fieldValidation"):
        if query.get(name):
            value[name] = query.get(name)
    return value


def _delete_options_value(call: Call) -> dict[str, Any]:
    if call.body:
        body = bodies.read_delete_options(call)
        return {name: field for name, field in body.items() if field is not None and name not in ("kind", "apiVersion")}
    query = call.query
    options = delete_options_of_query(query)
    value = {
        "gracePeriodSeconds": options.grace_period_seconds,
        "orphanDependents": options.orphan_dependents,
        "propagationPolicy": options.propagation_policy or None,
        "dryRun": query.get_all("dryRun") or None,
    }
    return {name: field for name, field in value.items() if field is not None}
