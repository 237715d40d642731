"""CSIDriver: the capabilities and requirements of a CSI driver."""

from collections.abc import Iterable, Sequence

from sampan.api.field_errors import FieldError
from sampan.api.types.storage_v1 import CSIDriver, TokenRequest
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_immutable, validate_optional_one_of
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_POLICIES, _MODES = ("File", "None", "ReadWriteOnceWithFSType"), ("Persistent", "Ephemeral")
_MIN_EXPIRATION_S, _MAX_EXPIRATION_S, _MIN_UPDATE_PERIOD_S = 600, 1 << 32, 10
_TOKENS_IN_ATTRIBUTES_WARNING = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def _audiences(driver: CSIDriver, now: float) -> str:
    requests = driver.spec.tokenRequests
    return ",".join([request.audience for request in requests]) if requests else cells.UNSET


_COLUMNS = (
    NAME,
    Column(
        "AttachRequired",
        lambda driver, now: driver.spec.attachRequired is not False,
        type="boolean",
        field="spec.attachRequired",
    ),
    Column(
        "PodInfoOnMount",
        lambda driver, now: bool(driver.spec.podInfoOnMount),
        type="boolean",
        field="spec.podInfoOnMount",
    ),
    Column(
        "StorageCapacity",
        lambda driver, now: bool(driver.spec.storageCapacity),
        type="boolean",
        field="spec.storageCapacity",
    ),
    Column("TokenRequests", _audiences, field="spec.tokenRequests"),
    Column(
        "RequiresRepublish",
        lambda driver, now: bool(driver.spec.requiresRepublish),
        type="boolean",
        field="spec.requiresRepublish",
    ),
    Column(
        "Modes",
        lambda driver, now: ",".join(driver.spec.volumeLifecycleModes) or cells.NONE,
        field="spec.volumeLifecycleModes",
    ),
    AGE,
)


class CSIDriverStrategy(Strategy):
    columns = _COLUMNS
    return_deleted_object = True
    allow_unconditional_update = False
    counts_generation = True

    def default(self, obj: CSIDriver) -> None:
        for field, value in _DEFAULTS.items():
            if getattr(obj.spec, field) is None:
                setattr(obj.spec, field, value)
        obj.spec.volumeLifecycleModes = obj.spec.volumeLifecycleModes or ["Persistent"]

    def prepare_for_create(self, ctx: Context, obj: CSIDriver) -> None:
        """Start with generation 0, as kube-apiserver does."""
        obj.metadata.generation = 0

    def validate_create(self, ctx: Context, obj: CSIDriver) -> Iterable[FieldError]:
        spec = obj.spec
        yield from validate_optional_one_of(spec.fsGroupPolicy, _POLICIES, "spec.fsGroupPolicy")
        yield from _validate_token(spec.tokenRequests, "spec.tokenRequests")
        for mode in spec.volumeLifecycleModes:
            yield from validate_optional_one_of(mode, _MODES, "spec.volumeLifecycleModes")
        period_s = spec.nodeAllocatableUpdatePeriodSeconds
        if period_s is not None and period_s < _MIN_UPDATE_PERIOD_S:
            text = f"must be greater than or equal to {_MIN_UPDATE_PERIOD_S} seconds"
            yield FieldError.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, text)
        if spec.serviceAccountTokenInSecrets is not None and not spec.tokenRequests:
            text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            yield FieldError.invalid("spec.serviceAccountTokenInSecrets", spec.serviceAccountTokenInSecrets, text)

    def validate_update(self, ctx: Context, obj: CSIDriver, old: CSIDriver) -> Iterable[FieldError]:
        yield from self.validate_create(ctx, obj)
        yield from validate_immutable(obj.spec.attachRequired, old.spec.attachRequired, "spec.attachedRequired")
        modes = obj.spec.volumeLifecycleModes, old.spec.volumeLifecycleModes
        yield from validate_immutable(*modes, "spec.volumeLifecycleModes")

    def warnings(self, ctx: Context, obj: CSIDriver, old: CSIDriver | None) -> Iterable[str]:
        requests = obj.spec.tokenRequests
        is_new = old is None or requests != old.spec.tokenRequests
        if requests and is_new and obj.spec.serviceAccountTokenInSecrets is None:
            yield _TOKENS_IN_ATTRIBUTES_WARNING


def _validate_token(requests: Sequence[TokenRequest], field_path: str) -> FieldErrors:
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        path = f"{field_path}[{index}]"
        if request.audience in audiences:
            yield FieldError.duplicate(f"{path}.audience", request.audience)
            continue
        audiences.add(request.audience)
        life_s = request.expirationSeconds
        if life_s is not None and life_s < _MIN_EXPIRATION_S:
            text = "may not specify a duration less than 10 minutes"
            yield FieldError.invalid(f"{path}.expirationSeconds", life_s, text)
        if life_s is not None and life_s > _MAX_EXPIRATION_S:
            text = "may not specify a duration larger than 2^32 seconds"
            yield FieldError.invalid(f"{path}.expirationSeconds", life_s, text)


BEHAVIOR = ResourceBehavior(strategy=CSIDriverStrategy())
