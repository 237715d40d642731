"""`ApiError`: the error of a failed request, with a subclass for every reason."""

from collections.abc import Mapping
from typing import Any, ClassVar

Status = dict[str, Any]
"""The body of an error response: kind Status, with message, reason, details and code."""


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


BY_REASON: dict[str, type[ApiError]] = {cls.default_reason: cls for cls in ApiError.__subclasses__()}
_AMBIGUOUS_CODES = {AlreadyExists, Expired, InternalError, ServerTimeout, StoreReadError}
BY_CODE: dict[int, type[ApiError]] = {
    cls.default_code: cls for cls in ApiError.__subclasses__() if cls not in _AMBIGUOUS_CODES
}


def from_status(status: Mapping[str, Any]) -> ApiError:
    """Return the error in a Status body. The reason determines its class, or the code if the reason is unknown."""
    reason, code = status.get("reason"), status.get("code")
    by_code = BY_CODE.get(code) if isinstance(code, int) else None
    cls = (BY_REASON.get(reason) if isinstance(reason, str) else None) or by_code or ApiError
    error = cls(str(status.get("message") or ""))
    error.status = dict(status)
    return error
