"""A cache of field sets by their encoding: objects of one kind, and the entries of one object from write to write, are
mostly the same."""

from contextlib import suppress

from sampan.machinery.apply import sets
from sampan.machinery.apply.forms import Forms, MissingVersion
from sampan.machinery.apply.schema_changes import reconciled
from sampan.machinery.apply.sets import Fields

_MOST = 256
_LONGEST = 8 * 1024
"""The maximum size in bytes; a set takes about ten times as much memory."""


class KnownSets:
    """The cached sets of one kind, reconciled with its current schema."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._known: dict[tuple[bytes, str], tuple[Fields, bytes]] = {}

    def read(self, raw: bytes, api_version: str) -> tuple[Fields, bytes]:
        """Return the set, and the bytes that this server would write for it. Raise BadFields."""
        entry = self._known.get((raw, api_version))
        if entry is None:
            fields = self._reconciled(sets.decode(raw), api_version)
            entry = fields, sets.encode(fields)
            self._keep(raw, api_version, entry)
        return entry

    def note(self, raw: bytes, api_version: str, fields: Fields) -> None:
        """Remember that these bytes were written for that set."""
        self._keep(raw, api_version, (fields, raw))

    def _keep(self, raw: bytes, api_version: str, found: tuple[Fields, bytes]) -> None:
        if len(raw) > _LONGEST:
            return
        if len(self._known) >= _MOST:
            with suppress(KeyError, RuntimeError):  # the worker thread for large objects may have removed it first
                del self._known[next(iter(self._known))]
        self._known[raw, api_version] = found

    def _reconciled(self, fields: Fields, api_version: str) -> Fields:
        try:
            return reconciled(fields, self._forms.atom(api_version))
        except MissingVersion:
            return fields
