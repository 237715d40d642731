"""Sets by the bytes that say them: objects of one kind, and one object's entries from write to write, mostly say the
same."""

from contextlib import suppress

from sampan.machinery.apply import sets
from sampan.machinery.apply.forms import Forms, MissingVersion
from sampan.machinery.apply.schema_changes import reconciled
from sampan.machinery.apply.sets import Fields

_MOST = 256
_LONGEST = 8 * 1024
"""Bytes; a set in memory takes about ten times as much."""


class KnownSets:
    """Of one kind. What is read is as the present schema has it."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._known: dict[tuple[bytes, str], tuple[Fields, bytes]] = {}

    def read(self, raw: bytes, api_version: str) -> tuple[Fields, bytes]:
        """The set, and the bytes that this server would write for it. BadFields for bytes that are no set."""
        found = self._known.get((raw, api_version))
        if found is None:
            fields = self._reconciled(sets.decode(raw), api_version)
            found = fields, sets.encode(fields)
            self._keep(raw, api_version, found)
        return found

    def note(self, raw: bytes, api_version: str, fields: Fields) -> None:
        """These bytes were written for that set."""
        self._keep(raw, api_version, (fields, raw))

    def _keep(self, raw: bytes, api_version: str, found: tuple[Fields, bytes]) -> None:
        if len(raw) > _LONGEST:
            return
        if len(self._known) >= _MOST:
            with suppress(KeyError, RuntimeError):  # the worker thread for large objects may have been faster
                del self._known[next(iter(self._known))]
        self._known[raw, api_version] = found

    def _reconciled(self, fields: Fields, api_version: str) -> Fields:
        try:
            return reconciled(fields, self._forms.atom(api_version))
        except MissingVersion:
            return fields


__all__ = ["KnownSets"]
