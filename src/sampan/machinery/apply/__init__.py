"""Field ownership and server-side apply on JSON values and their `Schema`, as in `sigs.k8s.io/structured-merge-diff`
and `apimachinery/pkg/util/managedfields`: pure functions.

- `elements`, `sets`, `field_sets`: the elements of a field path, sets of paths in the form of FieldsV1, the set of a
  value
- `atoms`, `items`: the merge behaviour that a schema defines, the keys of list items, equality of values
- `comparison`, `validation`, `merge`: the differences of two states, validation of an applied object, merging it into
  the live one
- `managed`: metadata.managedFields
- `updater`, `applier`, `field_manager`: ownership after an update, ownership and object after an apply
  with its conflicts, migration from client-side apply, all of it for one kind and path

Sets and values are never changed in place; results share parts with arguments. Requests, storage, typed objects and the
current time do not belong here.
"""

from sampan.machinery.apply.applier import Application, ApplyResult, Conflicts
from sampan.machinery.apply.atoms import Atom, Forms, MissingVersion
from sampan.machinery.apply.items import Misfit
from sampan.machinery.apply.managed import BadEntry, Claim, FieldOwner, Managed
from sampan.machinery.apply.sets import BadFields, Fields
from sampan.machinery.apply.updater import Everything, Except, Filter, ObjectChange, Only

__all__ = [
    "Application",
    "ApplyResult",
    "Atom",
    "BadEntry",
    "BadFields",
    "Claim",
    "Conflicts",
    "Everything",
    "Except",
    "FieldOwner",
    "Fields",
    "Filter",
    "Forms",
    "Managed",
    "Misfit",
    "MissingVersion",
    "ObjectChange",
    "Only",
]
