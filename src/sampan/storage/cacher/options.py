"""Validation and defaulting of the options of list and watch requests."""

from dataclasses import dataclass, replace

from sampan.api.faults import FieldError
from sampan.storage.cacher.versions import EXACT, NOT_OLDER_THAN

_MATCH = "resourceVersionMatch"


@dataclass(frozen=True, slots=True)
class Options:
    is_watch: bool = False
    resource_version: str = ""
    match: str = ""
    continue_token: str = ""
    send_initial_events: bool | None = None


def defaulted(options: Options) -> Options:
    """Apply defaults: a watch from no version or from 0 becomes a streaming list."""
    is_plain = options.send_initial_events is None and not options.match
    if options.is_watch and is_plain and options.resource_version in ("", "0"):
        return replace(options, send_initial_events=True, match=NOT_OLDER_THAN)
    return options


def faults(options: Options) -> list[FieldError]:
    """Return the errors of the options, the causes of a 422 for kind ListOptions in group meta.k8s.io."""
    return _watch_faults(options) if options.is_watch else _list_faults(options)


def _list_faults(options: Options) -> list[FieldError]:
    errors = []
    if options.match:
        if not options.resource_version:
            errors.append(_forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            errors.append(_with_continue())
        if options.match not in (EXACT, NOT_OLDER_THAN):
            errors.append(_unsupported(options.match, (EXACT, NOT_OLDER_THAN, "")))
        if options.match == EXACT and options.resource_version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(_forbidden(_MATCH, text))
    if options.send_initial_events is not None:
        errors.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_faults(options: Options) -> list[FieldError]:
    errors = []
    if options.send_initial_events is not None and options.match != NOT_OLDER_THAN:
        text = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        errors.append(_forbidden(_MATCH, text))
    if options.match:
        if options.send_initial_events is None:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(_forbidden(_MATCH, text))
        if options.match != NOT_OLDER_THAN:
            errors.append(_unsupported(options.match, (NOT_OLDER_THAN,)))
        if options.continue_token:
            errors.append(_with_continue())
    return errors


def _with_continue() -> FieldError:
    return _forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")


def _forbidden(field: str, text: str) -> FieldError:
    return FieldError.forbidden(field, text)


def _unsupported(value: str, supported: tuple[str, ...]) -> FieldError:
    return FieldError.not_supported(_MATCH, value, supported)
