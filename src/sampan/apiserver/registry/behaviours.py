"""The behavior of each resource: that of its kind's module, or else a generic one."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.customresources.objects.strategy import make_custom_behaviour
from sampan.apiserver.registry.behaviour import ResourceBehaviour, make_generic_behaviour
from sampan.apiserver.registry.kinds import find_behaviour


def make_behaviour(resource: Resource) -> ResourceBehaviour:
    if resource.is_custom:
        return make_custom_behaviour(resource)
    return find_behaviour(resource.group, resource.plural) or make_generic_behaviour(resource)
