"""Constructors for the error responses of kube-apiserver, with the same messages: one function per class.

`resource` is the plural name on the wire ("pods"), `group` its API group; both appear in the details and the message.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api import limits
from sampan.api.field_errors import FieldError, joined
from sampan.api.go_compat import gotext
from sampan.machinery.errors import status
from sampan.machinery.errors.status import ApiError

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The message for an update with an outdated resource version."""


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _details(kind: str, name: str, group: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "group": group, "kind": kind, **more}


def not_found(resource: str, name: str, *, group: str = "") -> status.NotFound:
    message = f"{_qualified(resource, group)} {gotext.quote(name)} not found"
    return status.NotFound(message, details=_details(resource, name, group))


def already_exists(resource: str, name: str, *, group: str = "") -> status.AlreadyExists:
    message = f"{_qualified(resource, group)} {gotext.quote(name)} already exists"
    return status.AlreadyExists(message, details=_details(resource, name, group))


def name_not_generated(resource: str, name: str, *, group: str = "", retry_after_s: int = 1) -> status.AlreadyExists:
    """Return the error for a generateName that yielded no unused name."""
    reason = "the server was not able to generate a unique name for the object"
    message = f"{_qualified(resource, group)} {gotext.quote(name)} already exists, {reason}"
    return status.AlreadyExists(message, details=_details(resource, name, group, retryAfterSeconds=retry_after_s))


def being_deleted(resource: str, name: str, *, group: str = "") -> status.AlreadyExists:
    """Return the error for a create with the name of an object that is waiting for its finalizers."""
    message = f"object is being deleted: {_qualified(resource, group)} {gotext.quote(name)} already exists"
    return status.AlreadyExists(message, details=_details(resource, name, group))


def conflict(resource: str, name: str, why: str = MODIFIED, *, group: str = "") -> status.Conflict:
    message = f"Operation cannot be fulfilled on {_qualified(resource, group)} {gotext.quote(name)}: {why}"
    return status.Conflict(message, details=_details(resource, name, group))


def apply_conflict(message: str, causes: Sequence[Mapping[str, str]]) -> status.Conflict:
    """Return the error for a server-side apply of fields that other managers own."""
    return status.Conflict(message, details={"causes": list(causes)})


def invalid(kind: str, name: str, field_errors: Sequence[FieldError], *, group: str = "") -> status.Invalid:
    """Return the error for an object with these field errors; `kind` is the name of the kind, not of the resource."""
    subject = f"{_qualified(kind, group)} {gotext.quote(name)} is invalid"
    texts: list[str] = []
    causes: list[dict[str, str]] = []
    room = limits.VALIDATION_ERROR_CHARACTERS
    for error in field_errors:
        cause = error.cause()
        texts.append(f"{error.field}: {cause['message']}")
        causes.append(cause)
        room -= len(texts[-1])
        if room < 0:
            break
    message = f"{subject}: {joined(texts)}" if texts else subject
    return status.Invalid(message, details=_details(kind, name, group, causes=causes))


def forbidden(
    resource: str, name: str, why: str, *, group: str = "", causes: Sequence[Mapping[str, str]] = ()
) -> status.Forbidden:
    """Return the error for a denied request: without a resource for a non-resource URL, without a name for a
    collection."""
    subject = f"{_qualified(resource, group)} {gotext.quote(name)}" if name else _qualified(resource, group)
    message = f"{subject} is forbidden: {why}" if subject else f"forbidden: {why}"
    return status.Forbidden(message, details=_details(resource, name, group, causes=list(causes)))


def unauthorized(message: str = "Unauthorized") -> status.Unauthorized:
    return status.Unauthorized(message)


def bad_request(message: str) -> status.BadRequest:
    return status.BadRequest(message)


def method_not_supported(resource: str, action: str, *, group: str = "") -> status.MethodNotSupported:
    message = f"{action} is not supported on resources of kind {gotext.quote(_qualified(resource, group))}"
    return status.MethodNotSupported(message, details=_details(resource, "", group))


def not_acceptable(accepted: Sequence[str]) -> status.NotAcceptable:
    return status.NotAcceptable(f"only the following media types are accepted: {', '.join(accepted)}")


def unsupported_media_type(accepted: Sequence[str]) -> status.UnsupportedMediaType:
    explanation = f"accepted media types include: {', '.join(accepted)}"
    return status.UnsupportedMediaType(f"the body of the request was in an unknown format - {explanation}")


def request_entity_too_large(message: str) -> status.RequestEntityTooLarge:
    return status.RequestEntityTooLarge(f"Request entity too large: {message}")


def too_many_requests(
    message: str, *, retry_after_s: int = 0, causes: Sequence[Mapping[str, str]] = ()
) -> status.TooManyRequests:
    return status.TooManyRequests(message, details={"retryAfterSeconds": retry_after_s, "causes": list(causes)})


def timeout(message: str, *, retry_after_s: int = 0, causes: Sequence[Mapping[str, str]] = ()) -> status.Timeout:
    details = {"retryAfterSeconds": retry_after_s, "causes": list(causes)}
    return status.Timeout(f"Timeout: {message}", details=details)


def resource_version_too_large(requested: int, current: int, *, retry_after_s: int = 1) -> status.Timeout:
    """Return the error for a read at a resource version that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Too large resource version: {requested}, current: {current}"
    return timeout(message, retry_after_s=retry_after_s, causes=[cause])


def server_timeout(resource: str, operation: str, *, group: str = "", retry_after_s: int = 0) -> status.ServerTimeout:
    against = _qualified(resource, group)
    message = f"The {operation} operation against {against} could not be completed at this time, please try again."
    details = _details(resource, operation, group, retryAfterSeconds=retry_after_s)
    return status.ServerTimeout(message, details=details)


def service_unavailable(message: str) -> status.ServiceUnavailable:
    return status.ServiceUnavailable(message)


def internal_error(message: str) -> status.InternalError:
    details = {"causes": [{"message": message}]}
    return status.InternalError(f"Internal error occurred: {message}", details=details)


def gone(message: str) -> status.Gone:
    return status.Gone(message)


def expired(message: str) -> status.Expired:
    """Return the error for a resource version or a continue token that is too old."""
    return status.Expired(message)


def unexpected(message: str) -> ApiError:
    """Return a 500 without a reason, which kube-apiserver sends for an error that has no Status."""
    return ApiError(message)


_GENERIC = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_KEEPS_ITS_WORDS = frozenset({403, 415})


def generic(
    code: int,
    text: str = "",
    *,
    verb: str = "",
    resource: str = "",
    name: str = "",
    group: str = "",
    retry_after_s: int = 0,
    is_unexpected: bool = False,
) -> ApiError:
    """Return the error for a bare status code. The server uses it for paths and bodies without a kind; the client uses
    it for a response that is not a Status (`text` is then its text, and `is_unexpected` is true)."""
    cls = status.AlreadyExists if code == 409 and verb == "POST" else status.BY_CODE.get(code)
    if cls is None:
        cls = status.InternalError if code >= 500 else ApiError
    message = _generic_message(code, text)
    if subject := " ".join(part for part in (_qualified(resource, group), name) if part):
        message += f" ({verb.lower()} {subject})"
    causes = [{"reason": "UnexpectedServerResponse", "message": text}] if is_unexpected else []
    details = _details(resource, name, group, causes=causes, retryAfterSeconds=retry_after_s)
    return cls(message, code=code, details=details)


def _generic_message(code: int, text: str) -> str:
    if code in _KEEPS_ITS_WORDS:
        return text
    if code == 406:
        is_known = text and text != "unknown"
        return text if is_known else "the server was unable to respond with a content type that the client supports"
    if code in _GENERIC:
        return _GENERIC[code]
    if code >= 500:
        return f"an error on the server ({gotext.quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
