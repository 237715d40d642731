"""Validation of file paths in containers and volumes."""

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import Faults


def climbs(path: str) -> bool:
    """Whether the path has a ".." segment."""
    return ".." in path and ".." in path.split("/")


def no_backsteps(path: str, at: str) -> Faults:
    if climbs(path):
        yield FieldError.invalid(at, path, "must not contain '..'")


def descending(path: str, at: str) -> Faults:
    """Yield errors unless the path is relative and has no ".." segment."""
    if path.startswith("/"):
        yield FieldError.invalid(at, path, "must be a relative path")
    yield from no_backsteps(path, at)


def non_reserved(path: str, at: str) -> Faults:
    """Yield errors unless the path is descending and does not start with "..", a prefix that the kubelet reserves."""
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
