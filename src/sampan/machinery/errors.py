"""API errors: `ApiError`, one subclass per reason, and one constructor per subclass with the message of kube-apiserver.
The Kubernetes counterpart is `k8s.io/apimachinery/pkg/api/errors`; the errors of single fields that make up an Invalid
are in `sampan.api.field_errors`.

Raise `not_found("pods", "a")` on the server, catch `NotFound` on either side. In the constructors, `resource` is the
plural name on the wire ("pods") and `group` its API group; both appear in the details and the message. This module
depends neither on transports nor on API types: a Status is a plain dict, so that importing it is cheap for every
component.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sampan.api import limits
from sampan.api.field_errors import FieldError, join_messages
from sampan.api.go_compat import gotext

Status = dict[str, Any]
"""The body of an error response: kind Status, with message, reason, details and code."""

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The message for an update with an outdated resource version."""

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


class ApiError(Exception):
    """A failed request. Raised by the server, which sends `status`, and rebuilt from it by the client.

    The base class has no reason: kube-apiserver sends a 500 like this for unexpected errors.
    """

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        reason = self.default_reason if reason is None else reason
        self.status: Status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if message:
            self.status["message"] = message
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = {key: part for key, part in details.items() if part}
        self.status["code"] = self.default_code if code is None else code

    @property
    def message(self) -> str:
        return str(self.status.get("message", ""))

    @property
    def code(self) -> int:
        code = self.status.get("code")
        return code if isinstance(code, int) and code else self.default_code

    @property
    def reason(self) -> str:
        return str(self.status.get("reason", ""))

    @property
    def details(self) -> dict[str, Any]:
        details = self.status.get("details")
        return details if isinstance(details, dict) else {}

    @property
    def causes(self) -> list[dict[str, str]]:
        return self.details.get("causes") or []

    @property
    def retry_after_s(self) -> int:
        """How many seconds the client should wait before it retries; 0 if unspecified."""
        seconds = self.details.get("retryAfterSeconds", 0)
        return seconds if isinstance(seconds, int) else 0

    def has_cause(self, reason: str) -> bool:
        return any(cause.get("reason") == reason for cause in self.causes)

    def __str__(self) -> str:
        return self.message


class BadRequest(ApiError):
    default_code, default_reason = 400, "BadRequest"


class Unauthorized(ApiError):
    default_code, default_reason = 401, "Unauthorized"


class Forbidden(ApiError):
    default_code, default_reason = 403, "Forbidden"


class NotFound(ApiError):
    default_code, default_reason = 404, "NotFound"


class MethodNotSupported(ApiError):
    default_code, default_reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    default_code, default_reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    default_code, default_reason = 409, "AlreadyExists"


class Conflict(ApiError):
    default_code, default_reason = 409, "Conflict"


class Gone(ApiError):
    default_code, default_reason = 410, "Gone"


class Expired(ApiError):
    default_code, default_reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    default_code, default_reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    default_code, default_reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    default_code, default_reason = 422, "Invalid"


class TooManyRequests(ApiError):
    default_code, default_reason = 429, "TooManyRequests"


class InternalError(ApiError):
    default_code, default_reason = 500, "InternalError"


class ServerTimeout(ApiError):
    """The server could not complete the operation in time; retrying is safe."""

    default_code, default_reason = 500, "ServerTimeout"


class StoreReadError(ApiError):
    """The stored data cannot be read."""

    default_code, default_reason = 500, "StorageReadError"


class ServiceUnavailable(ApiError):
    default_code, default_reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """The request took too long; the operation may still complete."""

    default_code, default_reason = 504, "Timeout"


ERROR_BY_REASON: dict[str, type[ApiError]] = {cls.default_reason: cls for cls in ApiError.__subclasses__()}
_AMBIGUOUS_CODES = {AlreadyExists, Expired, InternalError, ServerTimeout, StoreReadError}
ERROR_BY_CODE: dict[int, type[ApiError]] = {
    cls.default_code: cls for cls in ApiError.__subclasses__() if cls not in _AMBIGUOUS_CODES
}


def from_status(status: Mapping[str, Any]) -> ApiError:
    """Return the error in a Status body. The reason determines its class, or the code if the reason is unknown."""
    reason, code = status.get("reason"), status.get("code")
    by_code = ERROR_BY_CODE.get(code) if isinstance(code, int) else None
    cls = (ERROR_BY_REASON.get(reason) if isinstance(reason, str) else None) or by_code or ApiError
    error = cls(str(status.get("message") or ""))
    error.status = dict(status)
    return error


def _qualify(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _details(kind: str, name: str, group: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "group": group, "kind": kind, **more}


def not_found(resource: str, name: str, *, group: str = "") -> NotFound:
    message = f"{_qualify(resource, group)} {gotext.quote(name)} not found"
    return NotFound(message, details=_details(resource, name, group))


def already_exists(resource: str, name: str, *, group: str = "") -> AlreadyExists:
    message = f"{_qualify(resource, group)} {gotext.quote(name)} already exists"
    return AlreadyExists(message, details=_details(resource, name, group))


def name_not_generated(resource: str, name: str, *, group: str = "", retry_after_s: int = 1) -> AlreadyExists:
    """Return the error for a generateName that yielded no unused name."""
    reason = "the server was not able to generate a unique name for the object"
    message = f"{_qualify(resource, group)} {gotext.quote(name)} already exists, {reason}"
    return AlreadyExists(message, details=_details(resource, name, group, retryAfterSeconds=retry_after_s))


def being_deleted(resource: str, name: str, *, group: str = "") -> AlreadyExists:
    """Return the error for a create with the name of an object that is waiting for its finalizers."""
    message = f"object is being deleted: {_qualify(resource, group)} {gotext.quote(name)} already exists"
    return AlreadyExists(message, details=_details(resource, name, group))


def conflict(resource: str, name: str, why: str = MODIFIED, *, group: str = "") -> Conflict:
    message = f"Operation cannot be fulfilled on {_qualify(resource, group)} {gotext.quote(name)}: {why}"
    return Conflict(message, details=_details(resource, name, group))


def apply_conflict(message: str, causes: Sequence[Mapping[str, str]]) -> Conflict:
    """Return the error for a server-side apply of fields that other managers own."""
    return Conflict(message, details={"causes": list(causes)})


def invalid(kind: str, name: str, field_errors: Sequence[FieldError], *, group: str = "") -> Invalid:
    """Return the error for an object with these field errors; `kind` is the name of the kind, not of the resource."""
    subject = f"{_qualify(kind, group)} {gotext.quote(name)} is invalid"
    texts: list[str] = []
    causes: list[dict[str, str]] = []
    character_budget = limits.VALIDATION_ERROR_CHARACTERS
    for error in field_errors:
        cause = error.cause()
        texts.append(f"{error.field}: {cause['message']}")
        causes.append(cause)
        character_budget -= len(texts[-1])
        if character_budget < 0:
            break
    message = f"{subject}: {join_messages(texts)}" if texts else subject
    return Invalid(message, details=_details(kind, name, group, causes=causes))


def forbidden(
    resource: str, name: str, why: str, *, group: str = "", causes: Sequence[Mapping[str, str]] = ()
) -> Forbidden:
    """Return the error for a denied request: without a resource for a non-resource URL, without a name for a
    collection."""
    subject = f"{_qualify(resource, group)} {gotext.quote(name)}" if name else _qualify(resource, group)
    message = f"{subject} is forbidden: {why}" if subject else f"forbidden: {why}"
    return Forbidden(message, details=_details(resource, name, group, causes=list(causes)))


def unauthorized(message: str = "Unauthorized") -> Unauthorized:
    return Unauthorized(message)


def bad_request(message: str) -> BadRequest:
    return BadRequest(message)


def method_not_supported(resource: str, action: str, *, group: str = "") -> MethodNotSupported:
    message = f"{action} is not supported on resources of kind {gotext.quote(_qualify(resource, group))}"
    return MethodNotSupported(message, details=_details(resource, "", group))


def not_acceptable(accepted: Sequence[str]) -> NotAcceptable:
    return NotAcceptable(f"only the following media types are accepted: {', '.join(accepted)}")


def unsupported_media_type(accepted: Sequence[str]) -> UnsupportedMediaType:
    explanation = f"accepted media types include: {', '.join(accepted)}"
    return UnsupportedMediaType(f"the body of the request was in an unknown format - {explanation}")


def request_entity_too_large(message: str) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"Request entity too large: {message}")


def too_many_requests(
    message: str, *, retry_after_s: int = 0, causes: Sequence[Mapping[str, str]] = ()
) -> TooManyRequests:
    return TooManyRequests(message, details={"retryAfterSeconds": retry_after_s, "causes": list(causes)})


def timeout(message: str, *, retry_after_s: int = 0, causes: Sequence[Mapping[str, str]] = ()) -> Timeout:
    details = {"retryAfterSeconds": retry_after_s, "causes": list(causes)}
    return Timeout(f"Timeout: {message}", details=details)


def resource_version_too_large(requested: int, current: int, *, retry_after_s: int = 1) -> Timeout:
    """Return the error for a read at a resource version that does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Too large resource version: {requested}, current: {current}"
    return timeout(message, retry_after_s=retry_after_s, causes=[cause])


def server_timeout(resource: str, operation: str, *, group: str = "", retry_after_s: int = 0) -> ServerTimeout:
    against = _qualify(resource, group)
    message = f"The {operation} operation against {against} could not be completed at this time, please try again."
    details = _details(resource, operation, group, retryAfterSeconds=retry_after_s)
    return ServerTimeout(message, details=details)


def service_unavailable(message: str) -> ServiceUnavailable:
    return ServiceUnavailable(message)


def internal_error(message: str) -> InternalError:
    details = {"causes": [{"message": message}]}
    return InternalError(f"Internal error occurred: {message}", details=details)


def gone(message: str) -> Gone:
    return Gone(message)


def expired(message: str) -> Expired:
    """Return the error for a resource version or a continue token that is too old."""
    return Expired(message)


def unexpected_error(message: str) -> ApiError:
    """Return a 500 without a reason, which kube-apiserver sends for an error that has no Status."""
    return ApiError(message)


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
    cls = AlreadyExists if code == 409 and verb == "POST" else ERROR_BY_CODE.get(code)
    if cls is None:
        cls = InternalError if code >= 500 else ApiError
    message = _generic_message(code, text)
    if subject := " ".join(part for part in (_qualify(resource, group), name) if part):
        message += f" ({verb.lower()} {subject})"
    causes = [{"reason": _UNEXPECTED, "message": text}] if is_unexpected else []
    details = _details(resource, name, group, causes=causes, retryAfterSeconds=retry_after_s)
    return cls(message, code=code, details=details)


def response_text(error: ApiError) -> str:
    """Return the text of a response that was not a Status, such as a list of health checks; otherwise the message."""
    causes = error.details.get("causes", ())
    return next((cause["message"] for cause in causes if cause.get("reason") == _UNEXPECTED), error.message)


_UNEXPECTED = "UnexpectedServerResponse"


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


def release_frames(error: BaseException | None) -> None:
    """Drop the tracebacks of a handled error and of its causes. A frame that refers to the error that it raised is only
    freed by the garbage collector, with all that it refers to, such as the body of the request."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        release_frames(error.__cause__)
        error = error.__context__
