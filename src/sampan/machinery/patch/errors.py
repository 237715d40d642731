"""Errors of patches, and kube-apiserver's response for each; strict equality of JSON values (`are_identical`).

In Python 1, 1.0 and true are equal; JSON patches distinguish them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sampan.machinery import errors


def are_identical(left: Any, right: Any) -> bool:
    """Whether the values are equal, and of equal types at all levels."""
    return left is right or (left == right and _have_same_types(left, right))


def _have_same_types(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return all(_have_same_types(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return all(map(_have_same_types, left, right))
    return True


class PatchError(Exception):
    """The patch cannot be applied or computed. The message is that of Kubernetes."""

    def as_api_error(self) -> errors.ApiError:
        """Return the error response: 500 without a reason, as for an invalid directive of a strategic merge patch."""
        return errors.unexpected_error(str(self))


class MalformedPatch(PatchError):
    def as_api_error(self) -> errors.ApiError:
        return errors.bad_request(str(self))


class RefusedPatch(PatchError):
    """The patch does not fit the object. The response does not say why."""

    def as_api_error(self) -> errors.ApiError:
        return errors.generic(422, str(self))


class TestFailed(RefusedPatch):
    """A `test` operation of a JSON patch failed."""


class TooManyOperations(PatchError):
    def as_api_error(self) -> errors.ApiError:
        return errors.request_entity_too_large(str(self))


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def limit_depth(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorate a recursive function to reject values that are nested too deeply."""

    @wraps(function)
    def call_within_depth(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise MalformedPatch("exceeded max depth") from None

    return call_within_depth


_JSON_NAMES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
}


def cannot_unmarshal(value: Any, into: str) -> str:
    """Return Go's error message for a JSON value of the wrong type."""
    return f"json: cannot unmarshal {_JSON_NAMES[type(value)]} into Go {into}"
