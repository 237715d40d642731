"""ServiceCIDR: ranges from which cluster IPs are allocated."""

from collections.abc import Iterable, Sequence

from sampan.api import addresses
from sampan.api.field_errors import FieldError
from sampan.api.types.networking_v1 import ServiceCIDR, ServiceCIDRStatus
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.apply import AllFieldsFilter

_CIDRS_PATH = "spec.cidrs"
_FIXED = "field is immutable"


class ServiceCIDRStrategy(Strategy):
    columns = (
        NAME,
        Column("CIDRs", lambda service_cidr, now: ",".join(service_cidr.spec.cidrs), field=_CIDRS_PATH),
        AGE,
    )

    def prepare_for_create(self, ctx: Context, obj: ServiceCIDR) -> None:
        obj.status = ServiceCIDRStatus()

    def validate_create(self, ctx: Context, obj: ServiceCIDR) -> Iterable[FieldError]:
        return _validate_cidrs(obj.spec.cidrs)

    def prepare_for_update(self, ctx: Context, obj: ServiceCIDR, old: ServiceCIDR) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: ServiceCIDR, old: ServiceCIDR) -> Iterable[FieldError]:
        """Yield errors for any change but the addition of a second IP family."""
        new, before = obj.spec.cidrs, old.spec.cidrs
        if len(new) not in (len(before), 2) or len(new) < len(before):
            yield FieldError.invalid(_CIDRS_PATH, new or None, _FIXED)
            return
        for index, (new_cidr, old_cidr) in enumerate(zip(new, before, strict=False)):
            if new_cidr != old_cidr:
                yield FieldError.invalid(f"{_CIDRS_PATH}[{index}]", new_cidr, _FIXED)
        if len(new) > len(before):
            yield from _validate_cidrs(new)


def _validate_cidrs(cidrs: Sequence[str]) -> FieldErrors:
    if not cidrs:
        yield FieldError.required(_CIDRS_PATH, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        yield FieldError.invalid(_CIDRS_PATH, {"CIDRs": list(cidrs)}, "may only hold up to 2 values")
        return
    errors = [error for index, text in enumerate(cidrs) for error in addresses.cidr(text, f"{_CIDRS_PATH}[{index}]")]
    yield from errors
    if len(cidrs) == 2 and not errors and (":" in cidrs[0]) == (":" in cidrs[1]):
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield FieldError.invalid(_CIDRS_PATH, list(cidrs), text)


class ServiceCIDRStatusStrategy(StatusStrategy):
    keeps_metadata = True
    reset_fields = AllFieldsFilter()
    """kube-apiserver declares the reset fields of this kind for the group `networking`, which does not exist, so that
    the path of the status resets nothing of a manager's fields."""


_strategy = ServiceCIDRStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": ServiceCIDRStatusStrategy(_strategy)})
