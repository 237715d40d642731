"""Field ownership and server-side apply on JSON values and their `Schema`, as in `sigs.k8s.io/structured-merge-diff`
and `apimachinery/pkg/util/managedfields`: pure functions.

- `elements`, `sets`, `field_sets`: the elements of a field path, sets of paths in the form of FieldsV1, the set of a
  value
- `atoms`, `items`: the merge behavior that a schema defines, the keys of list items, equality of values
- `comparison`, `validation`, `merge`: the differences of two states, validation of an applied object, merging it into
  the live one
- `managed`: metadata.managedFields
- `updater`, `applier`, `field_manager`: ownership after an update, ownership and object after an apply
  with its conflicts, migration from client-side apply, all of it for one kind and path

Sets and values are never changed in place; results share parts with arguments. Requests, storage, typed objects and the
current time do not belong here.
"""

from sampan.machinery.apply.applier import ApplyConflicts, ApplyOperation, ApplyResult
from sampan.machinery.apply.atoms import Atom, MissingVersion, VersionedSchemas
from sampan.machinery.apply.items import SchemaMismatch
from sampan.machinery.apply.managed import BadEntry, FieldOwner, Managed, VersionedFieldSet
from sampan.machinery.apply.sets import BadFields, Fields
from sampan.machinery.apply.updater import (
    AllFieldsFilter,
    ExcludedFieldsFilter,
    FieldFilter,
    IncludedFieldsFilter,
    ObjectChange,
)

__all__ = [
    "AllFieldsFilter",
    "ApplyConflicts",
    "ApplyOperation",
    "ApplyResult",
    "Atom",
    "BadEntry",
    "BadFields",
    "ExcludedFieldsFilter",
    "FieldFilter",
    "FieldOwner",
    "Fields",
    "IncludedFieldsFilter",
    "Managed",
    "MissingVersion",
    "ObjectChange",
    "SchemaMismatch",
    "VersionedFieldSet",
    "VersionedSchemas",
]
