"""The versions of one kind, as far as merging and ownership need them."""

from typing import Any, Protocol

from sampan.machinery.apply.atoms import Atom


class MissingVersion(ValueError):
    """The kind does not exist in that version, or no longer exists."""


class Forms(Protocol):
    def atom(self, api_version: str) -> Atom:
        """Return the atom of a version. Raise MissingVersion if the kind has no such version."""

    def convert(self, value: Any, api_version: str) -> Any:
        """Convert a complete object, which contains its own version; the result may share parts. Raise
        MissingVersion."""
