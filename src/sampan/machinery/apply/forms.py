"""The versions of one kind, as far as merging and ownership must know them."""

from typing import Any, Protocol

from sampan.machinery.apply.atoms import Atom


class MissingVersion(ValueError):
    """The kind does not exist in that version (any more)."""


class Forms(Protocol):
    def atom(self, api_version: str) -> Atom:
        """MissingVersion if the kind has no such version."""

    def convert(self, value: Any, api_version: str) -> Any:
        """A whole object, which says its own version, in that one; it may share parts. MissingVersion as above."""


__all__ = ["Forms", "MissingVersion"]
