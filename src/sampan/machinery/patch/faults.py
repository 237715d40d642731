"""What can be wrong with a patch, and the answer that the real server gives for each."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sampan.machinery import errors


class PatchError(Exception):
    """A patch that cannot be applied or made. The text is the real one's, for those who show it."""

    def as_api_error(self) -> errors.ApiError:
        """What the server answers: here 500 without a reason, as for a wrong directive of a strategic patch."""
        return errors.unexpected(str(self))


class MalformedPatch(PatchError):
    """It does not have the form of a patch."""

    def as_api_error(self) -> errors.ApiError:
        return errors.bad_request(str(self))


class RefusedPatch(PatchError):
    """It does not fit the object. The client is told only that, not why."""

    def as_api_error(self) -> errors.ApiError:
        return errors.generic(422, str(self))


class TestFailed(RefusedPatch):
    """The `test` operation of a JSON patch did not hold."""


class TooManyOperations(PatchError):
    def as_api_error(self) -> errors.ApiError:
        return errors.request_entity_too_large(str(self))


Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def within_depth(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Values are walked by recursion; one that is nested too deeply for that is refused."""

    @wraps(function)
    def bounded(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise MalformedPatch("exceeded max depth") from None

    return bounded


_JSON_NAMES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
}


def cannot_unmarshal(value: Any, into: str) -> str:
    """Go's complaint about a JSON value of the wrong type."""
    return f"json: cannot unmarshal {_JSON_NAMES[type(value)]} into Go {into}"


__all__ = [
    "MalformedPatch",
    "PatchError",
    "RefusedPatch",
    "TestFailed",
    "TooManyOperations",
    "cannot_unmarshal",
    "within_depth",
]
