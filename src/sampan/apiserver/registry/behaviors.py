"""The behavior of each resource: that of its kind's module, or else a generic one."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.customresources.objects.strategy import make_custom_behavior
from sampan.apiserver.registry.behavior import ResourceBehavior, make_generic_behavior
from sampan.apiserver.registry.kinds import find_behavior


def make_behavior(resource: Resource) -> ResourceBehavior:
    if resource.is_custom:
        return make_custom_behavior(resource)
    return find_behavior(resource.group, resource.plural) or make_generic_behavior(resource)
