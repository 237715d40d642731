"""Checks of paths inside containers and volumes."""

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import Faults


def climbs(path: str) -> bool:
    """Whether one of its parts goes up."""
    return ".." in path and ".." in path.split("/")


def no_backsteps(path: str, at: str) -> Faults:
    if climbs(path):
        yield FieldError.invalid(at, path, "must not contain '..'")


def descending(path: str, at: str) -> Faults:
    """A relative path that stays below where it starts."""
    if path.startswith("/"):
        yield FieldError.invalid(at, path, "must be a relative path")
    yield from no_backsteps(path, at)


def non_reserved(path: str, at: str) -> Faults:
    """A descending path that leaves the names free which the kubelet uses for its own."""
    if "." not in path and not path.startswith("/"):
        return
    yield from descending(path, at)
    if path.startswith("..") and not path.startswith("../"):
        yield FieldError.invalid(at, path, "must not start with '..'")


def is_bad_mode(mode: int | None) -> bool:
    return mode is not None and not 0 <= mode <= 0o777


def file_mode(mode: int | None, at: str) -> Faults:
    if is_bad_mode(mode):
        yield FieldError.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive")
