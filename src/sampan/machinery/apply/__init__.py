"""Field ownership and server-side apply, on JSON values and their `Schema`: pure functions.

    elements      the steps of a field path            sets          sets of fields, in the form of FieldsV1
    atoms         what a schema means for merging      field_sets    from a value to its fields
    comparing     what differs between two states      checking      whether an applied object fits its schema
    merging       applied over live                    removing      taking fields out of a value
    managed       metadata.managedFields               filters       fields that a path does not let change
    updating      ownership after a plain write        applying      ownership and object after an apply
    conflicts     what is told of conflicts            last_applied  taking over from client-side apply

Sets and values are never changed in place; results share parts with arguments. What may not come here: requests,
storage, typed objects of kinds, and the time of day.
"""

from sampan.machinery.apply.applying import Application, Conflicts, Outcome
from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.filters import Everything, Except, Filter, Only
from sampan.machinery.apply.forms import Forms, MissingVersion
from sampan.machinery.apply.items import Misfit
from sampan.machinery.apply.managed import BadEntry, Claim, Managed, Owner
from sampan.machinery.apply.sets import BadFields, Fields
from sampan.machinery.apply.updating import Change

__all__ = [
    "Application",
    "Atom",
    "BadEntry",
    "BadFields",
    "Change",
    "Claim",
    "Conflicts",
    "Everything",
    "Except",
    "Fields",
    "Filter",
    "Forms",
    "Managed",
    "Misfit",
    "MissingVersion",
    "Only",
    "Outcome",
    "Owner",
]
