"""ConfigMap: configuration data for pods."""

from collections.abc import Iterable, Iterator

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import ConfigMap
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME

MAX_DATA_BYTES = 1024 * 1024
"""The maximum size in bytes of the data of a ConfigMap or Secret."""
FROZEN = "field is immutable when `immutable` is set"


def validate_data_keys(keys: Iterable[str], path: str) -> Iterator[FieldError]:
    for key in keys:
        for text in names.config_map_key(key):
            yield FieldError.invalid(f"{path}[{key}]", key, text)


class ConfigMapStrategy(Strategy):
    columns = (
        NAME,
        Column("Data", lambda config, now: len(config.data) + len(config.binaryData), field="data"),
        AGE,
    )

    def validate_create(self, ctx: Context, obj: ConfigMap) -> Iterable[FieldError]:
        return _validate_config_map(obj)

    def validate_update(self, ctx: Context, obj: ConfigMap, old: ConfigMap) -> Iterable[FieldError]:
        if old.immutable:
            if not obj.immutable:
                yield FieldError.forbidden("immutable", FROZEN)
            for field in ("data", "binaryData"):
                if getattr(obj, field) != getattr(old, field):
                    yield FieldError.forbidden(field, FROZEN)
        yield from _validate_config_map(obj)


def _validate_config_map(config: ConfigMap) -> Iterator[FieldError]:
    for key in sorted(config.data):
        yield from validate_data_keys((key,), "data")
        if key in config.binaryData:
            yield FieldError.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    yield from validate_data_keys(sorted(config.binaryData), "binaryData")
    if sum(map(names.size, config.data.values())) + sum(map(len, config.binaryData.values())) > MAX_DATA_BYTES:
        yield FieldError.too_long("[]", MAX_DATA_BYTES)


BEHAVIOR = ResourceBehavior(strategy=ConfigMapStrategy())
