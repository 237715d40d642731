"""List and watch options: from the query string to the query of the watch cache."""

import random

from sampan.api import fields, labels
from sampan.api.resource import Resource
from sampan.apiserver.call import Call
from sampan.machinery import errors
from sampan.storage.cacher import ListQuery, Selection, WatchQuery
from sampan.storage.cacher import options as list_options

_CHANCE = random.Random()
"""A private generator, because tests seed the shared one."""

_WATCH_LEAST_S = 1800
"""The minimum timeout of a watch that sets none, as in kube-apiserver: the actual timeout is random, up to twice as
long, so that clients do not reconnect all at once."""


def selection(call: Call) -> Selection:
    query = call.query
    try:
        by_label = labels.parse(query.get("labelSelector")) if query.get("labelSelector") else None
    except labels.SelectorError as error:
        raise errors.bad_request(str(error)) from None
    by_field = _field_terms(call, query.get("fieldSelector")) if query.get("fieldSelector") else ()
    return Selection(namespace=call.namespace, name=call.name, labels=by_label, fields=by_field)


def _field_terms(call: Call, text: str) -> tuple[fields.Term, ...]:
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
    return [*fields.METADATA_FIELDS, *[field.label for field in resource.selectable]]


def checked_options(call: Call, *, is_watch: bool) -> list_options.Options:
    query = call.query
    options = list_options.defaulted(
        list_options.Options(
            is_watch=is_watch,
            resource_version=query.get("resourceVersion"),
            match=query.get("resourceVersionMatch"),
            continue_token=query.get("continue"),
            send_initial_events=query.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
        )
    )
    if faults := list_options.faults(options):
        raise errors.invalid("ListOptions", "", faults, group="meta.k8s.io")
    return options


def list_query(call: Call) -> ListQuery:
    query = call.query
    if not query:
        return ListQuery(Selection(namespace=call.namespace))
    options = checked_options(call, is_watch=False)
    number(query.get("timeoutSeconds"))
    return ListQuery(
        selection=selection(call),
        resource_version=options.resource_version,
        match=options.match,
        limit=number(query.get("limit")),
        continue_token=options.continue_token,
    )


def watch_query(call: Call) -> WatchQuery:
    options = checked_options(call, is_watch=True)
    timeout = number(call.query.get("timeoutSeconds"))
    return WatchQuery(
        selection=selection(call),
        resource_version=options.resource_version,
        send_initial_events=options.send_initial_events,
        allow_bookmarks=call.query.flag("allowWatchBookmarks"),
        timeout_s=timeout if timeout > 0 else _WATCH_LEAST_S * (1 + _CHANCE.random()),
    )


def number(text: str) -> int:
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
