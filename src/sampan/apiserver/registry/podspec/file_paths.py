"""Validation of file paths in containers and volumes."""

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import FieldErrors


def has_backsteps(path: str) -> bool:
    """Whether the path has a ".." segment."""
    return ".." in path and ".." in path.split("/")


def validate_path_no_backsteps(path: str, at: str) -> FieldErrors:
    if has_backsteps(path):
        yield FieldError.invalid(at, path, "must not contain '..'")


def validate_local_descending_path(path: str, at: str) -> FieldErrors:
    """Yield errors unless the path is relative and has no ".." segment."""
    if path.startswith("/"):
        yield FieldError.invalid(at, path, "must be a relative path")
    yield from validate_path_no_backsteps(path, at)


def validate_local_non_reserved_path(path: str, at: str) -> FieldErrors:
    """Yield errors unless the path is descending and does not start with "..", a prefix that the kubelet reserves."""
    if "." not in path and not path.startswith("/"):
        return
    yield from validate_local_descending_path(path, at)
    if path.startswith("..") and not path.startswith("../"):
        yield FieldError.invalid(at, path, "must not start with '..'")


def is_bad_mode(mode: int | None) -> bool:
    return mode is not None and not 0 <= mode <= 0o777


def validate_file_mode(mode: int | None, at: str) -> FieldErrors:
    if is_bad_mode(mode):
        yield FieldError.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive")
