"""The strategies of services and of their status."""

from __future__ import annotations

from collections.abc import Iterable

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Service, ServiceStatus
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.kinds.services import changes, holdings, traits, validation, warnings
from sampan.apiserver.registry.kinds.services.columns import COLUMNS
from sampan.apiserver.registry.kinds.services.defaults import default_service
from sampan.apiserver.registry.kinds.services.status import validate_load_balancer_status
from sampan.apiserver.registry.strategy import Context, FinishFunc, StatusStrategy, Strategy
from sampan.machinery import errors


class ServiceStrategy(Strategy):
    allow_create_on_update = True
    return_deleted_object = True
    columns = COLUMNS

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.dns1123_label(name, prefix=is_prefix)

    def default(self, obj: Service) -> None:
        default_service(obj)

    async def begin_write(self, ctx: Context, obj: Service, old: Service | None) -> FinishFunc | None:
        return await holdings.begin(ctx, obj, old)

    def prepare_for_create(self, ctx: Context, obj: Service) -> None:
        obj.status = ServiceStatus()
        _drop_hidden(obj)

    def validate_create(self, ctx: Context, obj: Service) -> Iterable[FieldError]:
        return validation.validate_service(obj, None)

    def prepare_for_update(self, ctx: Context, obj: Service, old: Service) -> None:
        obj.status = old.status
        changes.drop_unneeded(obj, old)
        _drop_hidden(obj)

    def validate_update(self, ctx: Context, obj: Service, old: Service) -> Iterable[FieldError]:
        yield from validation.validate_service_update(obj, old)
        yield from validation.validate_service(obj, old)

    def warnings(self, ctx: Context, obj: Service, old: Service | None) -> Iterable[str]:
        return warnings.service_warnings(obj)

    async def after_delete(self, ctx: Context, obj: Service) -> None:
        await holdings.give_back(ctx, obj)
        endpoints = ctx.registry.store_of("", "v1", "Endpoints")
        try:  # otherwise a new service with this name would start with the endpoints of this one
            await endpoints.delete(ctx, obj.metadata.name, DeleteOptions())
        except errors.NotFound:
            return


def _drop_hidden(service: Service) -> None:
    """Clear internalTrafficPolicy, which does not apply to ExternalName services."""
    if traits.is_external_name(service):
        service.spec.internalTrafficPolicy = None


class ServiceStatusStrategy(StatusStrategy):
    def validate_update(self, ctx: Context, obj: Service, old: Service) -> Iterable[FieldError]:
        return validate_load_balancer_status(obj, old)

    def warnings(self, ctx: Context, obj: Service, old: Service | None) -> Iterable[str]:
        return warnings.status_warnings(obj)
