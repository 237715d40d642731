"""The managers of a Scale, which are those of the replicas field of the scaled object."""

from sampan.machinery.apply import sets
from sampan.machinery.apply.managed import UPDATE, Claim, Managed, owner
from sampan.machinery.apply.sets import Path

SCALE_VERSION = "autoscaling/v1"
REPLICAS: Path = ("f:spec", "f:replicas")
"""The path of the replicas in a Scale, and in most scaled objects."""


def of_scale(parent: Managed, paths: dict[str, Path]) -> Managed:
    """Return the managers of the Scale. `paths` has the path of the replicas in each version of the object."""
    out: Managed = {}
    for field_owner, claim in parent.items():
        path = paths.get(claim.api_version)
        if path is not None and sets.has(claim.fields, path):
            scale_owner = owner(field_owner.manager, field_owner.operation, SCALE_VERSION, field_owner.subresource)
            out[scale_owner] = Claim(sets.of(REPLICAS), SCALE_VERSION, claim.time)
    return out


def of_parent(parent: Managed, scale: Managed, version: str, paths: dict[str, Path]) -> list[Managed]:
    """Return the managers of the object, in two parts that may contain the same owner, as in kube-apiserver: managers
    that update are identified by version, and so never match those of the Scale. An entry from the Scale keeps its time
    only if it belongs to an applying manager that the object already has."""
    own: Managed = {}
    rest = dict(scale)
    for field_owner, claim in parent.items():
        if claim.api_version not in paths:
            continue
        path = paths[claim.api_version]
        if not sets.has(claim.fields, path):
            own[field_owner] = claim
        elif field_owner in rest:
            del rest[field_owner]
            own[field_owner] = claim
        elif remaining := sets.difference(claim.fields, sets.of(path)):
            own[field_owner] = claim._replace(fields=remaining, raw=None)
    inherited: Managed = {}
    for field_owner, claim in rest.items():
        if not sets.has(claim.fields, REPLICAS):
            continue
        before = parent.get(field_owner)
        new_owner = owner(field_owner.manager, field_owner.operation, version, field_owner.subresource)
        time = before.time if before is not None and field_owner.operation != UPDATE else None
        inherited[new_owner] = Claim(sets.of(paths[version]), version, time)
    return [own, inherited]
