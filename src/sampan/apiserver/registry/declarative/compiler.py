"""The compiler: it turns the tags of a type, and of the types below, into rules."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from sampan.api.field_errors import FieldError
from sampan.apiserver.registry.declarative import checks
from sampan.apiserver.registry.declarative.checks import Check, HasValue, ItemKey
from sampan.apiserver.registry.declarative.custom import CUSTOM_CHECKS
from sampan.apiserver.registry.declarative.rules import (
    CheckStep,
    DependencyStep,
    EachKeyStep,
    EachValueStep,
    FieldRules,
    Gatekeeper,
    IsEnabled,
    ModeStep,
    NestedStep,
    OptionStep,
    StructRules,
    SubfieldStep,
    TooManyErrors,
    UnionStep,
    Validation,
    ValidationStep,
)
from sampan.apiserver.registry.declarative.tags import Tag, load_table, parse_field

_FOREIGN = ("sampan.api.types.apiextensions_v1", "sampan.api.types.apiregistration_v1")
"""The types of other API servers, which have no declarative validation."""
_GATEKEEPERS = frozenset({"forbidden", "immutable", "maxItems", "optional", "required", "update"})
"""The tags whose errors end the validation of the field."""
_DECLARATIONS = frozenset({"customUnique", "ifMode", "listMapKey", "modeDiscriminator", "opaqueType"})
"""The tags that are no checks themselves, or that are compiled with the struct."""
_OF_STRUCT = frozenset({"dependentForbidden", "dependentRequired", "ifMode", "unionMember"})
_LIMITS = {
    "maxBytes": checks.check_max_bytes,
    "maxItems": checks.check_max_items,
    "maxLength": checks.check_max_length,
    "maximum": checks.check_maximum,
    "minimum": checks.check_minimum,
}


def complete_errors(
    errors: list[FieldError],
    obj: Any,
    old: Any | None,
    is_enabled: IsEnabled,
    *,
    validates_immutable_parts: bool = True,
) -> list[FieldError]:
    """Return the errors of the hand-written rules, each once, followed by those of the validation tags.

    `old` is the state of the object before an update, None for a create. `is_enabled` tells whether an option of the
    tags is on; options are mostly feature gates. Kinds of other API servers, and custom resources, have no declarative
    validation; their errors can be repeated.
    """
    kind: Any = type(obj)
    if not _is_declarative(kind):
        return errors
    if errors:
        errors = list({_identify(error): error for error in errors}.values())
    rules = rules_of(kind)
    if rules is None:
        return errors
    validation = Validation(old is not None, is_enabled, validates_immutable_parts)
    with suppress(TooManyErrors):
        rules.run(validation, obj, old, "")
    return errors + validation.errors


def _identify(error: FieldError) -> tuple[object, ...]:
    """Return what equal errors share. A list or an object counts by its identity: many errors may show the same one,
    and to format it for each of them would take quadratic time."""
    value = error.bad_value
    return error.type, error.field, error.detail, value if isinstance(value, str | int | float) else id(value)


def _is_declarative(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) and kind.__module__ not in _FOREIGN


@cache
def rules_of(kind: Any) -> StructRules | None:
    """Return the rules of a type, None if nothing in it has enforced tags."""
    if kind.__module__ in _FOREIGN:
        return None
    package = getattr(sys.modules[kind.__module__], "PACKAGE", "")
    table = load_table().get(f"{package}.{kind.__name__}", {})
    fields = {
        info.encode_name: TaggedField(
            kind.__name__,
            info.name,
            info.encode_name,
            FieldShape.parse(info.type),
            parse_field(table.get(info.encode_name, ())),
        )
        for info in msgspec.structs.fields(kind)
    }
    steps = list(_compile_struct(fields))
    rules = [rule for field in fields.values() if (rule := _compile_field(field)) is not None]
    return StructRules(steps, rules) if steps or rules else None


@dataclass(frozen=True, slots=True)
class FieldShape:
    """What the Go type of a field is, as far as validation depends on it."""

    container: str
    """"list", "map", or nothing."""
    is_pointer: bool
    struct: type | None
    """The type of the value, or of the items, if it is a struct."""

    @classmethod
    def parse(cls, annotation: Any) -> FieldShape:
        is_optional, plain = _without_none(annotation)
        origin = typing.get_origin(plain)
        container = "list" if origin is list else "map" if origin is dict else ""
        element = _without_none(typing.get_args(plain)[-1])[1] if container else plain
        is_struct = isinstance(element, type) and issubclass(element, msgspec.Struct)
        return cls(container, is_optional and not container, element if is_struct else None)

    @property
    def has_value(self) -> HasValue:
        return checks.is_present if self.is_pointer else bool


def _without_none(annotation: Any) -> tuple[bool, Any]:
    """Return whether a type includes None, and the type without it."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        arguments = typing.get_args(annotation)
        others = [argument for argument in arguments if argument is not type(None)]
        return len(others) < len(arguments), others[0]
    return False, annotation


@dataclass(frozen=True, slots=True)
class TaggedField:
    owner: str
    attribute: str
    name: str
    """The name on the wire."""
    shape: FieldShape
    tags: Sequence[Tag]

    @property
    def is_opaque(self) -> bool:
        return any("opaqueType" in (tag.name, tag.payload.name if tag.payload else "") for tag in self.tags)

    @property
    def is_unique(self) -> bool:
        """Whether the items of the list must be distinct, and no hand-written rule checks that."""
        return self.item_key is not None and not any(tag.name == "customUnique" for tag in self.tags)

    @property
    def item_key(self) -> ItemKey | None:
        """The identity of the items of a list, if it is a set or like a map."""
        kinds = {tag.value for tag in self.tags if tag.name in ("listType", "unique")}
        if not kinds & {"map", "set"}:
            return None
        return checks.make_item_key([tag.value for tag in self.tags if tag.name == "listMapKey"])


# -- fields --------------------------------------------------------------------------------------------------------


def _compile_field(field: TaggedField) -> FieldRules | None:
    gatekeepers, steps = _compile_tags(field, [tag for tag in field.tags if tag.name not in _OF_STRUCT])
    is_enforced = any(not tag.is_alpha for tag in field.tags if tag.name not in (*_OF_STRUCT, "optional", "listType"))
    rules = rules_of(field.shape.struct) if field.shape.struct is not None and not field.is_opaque else None
    if rules is not None:
        steps.append(NestedStep(rules, field.shape.container, field.item_key))
        is_enforced = True
    if not is_enforced or not (gatekeepers or steps):
        return None
    is_optional = any(tag.name == "optional" for tag in field.tags)
    return FieldRules(field.attribute, field.name, gatekeepers, steps, is_optional, field.shape.is_pointer)


def _compile_tags(field: TaggedField, tags: Sequence[Tag]) -> tuple[list[Gatekeeper], list[ValidationStep]]:
    """Return the steps of the tags that end the validation of the field, and the others."""
    gatekeepers: list[Gatekeeper] = []
    steps: list[ValidationStep] = []
    for tag in _merge(tags):
        for is_gatekeeper, step in _compile_tag(field, tag):
            if is_gatekeeper:
                gatekeepers.append(Gatekeeper(step, tag.name == "immutable" and tag.level == "beta"))
            else:
                steps.append(step)
    return gatekeepers, steps


def _merge(tags: Sequence[Tag]) -> Iterator[Tag]:
    """Yield the tags, those that are one check together (update, items of a union) as one in place of the first."""
    merged: set[str] = set()
    for tag in tags:
        payload = tag.payload
        if tag.name == "update" or (payload is not None and payload.name == "zeroOrOneOfMember"):
            if tag.name not in merged:
                merged.add(tag.name)
                same = [other for other in tags if other.name == tag.name]
                yield replace(tag, value=",".join(other.value or other.argument for other in same))
        else:
            yield tag


def _compile_tag(field: TaggedField, tag: Tag) -> Iterator[tuple[bool, ValidationStep]]:
    """Yield the steps of a tag, and whether they end the validation of the field."""
    if tag.name in _DECLARATIONS:
        return
    if tag.payload is not None:
        yield from _compile_wrapper(field, tag, tag.payload)
    elif tag.name == "optional":
        yield True, CheckStep(checks.check_required(field.shape.has_value), is_reported=False)
    elif tag.name == "forbidden":
        yield True, CheckStep(checks.check_forbidden(field.shape.has_value), is_reported=not tag.is_alpha)
        yield True, CheckStep(checks.check_required(field.shape.has_value), is_reported=False)
    elif tag.name in _GATEKEEPERS:
        yield True, CheckStep(_make_check(field, tag), is_reported=not tag.is_alpha)
    elif tag.name in ("listType", "unique"):
        if tag.value in ("map", "set") and field.is_unique and not tag.is_alpha:
            yield False, CheckStep(_make_check(field, tag))
    elif not tag.is_alpha:
        yield False, CheckStep(_make_check(field, tag))


def _make_check(field: TaggedField, tag: Tag) -> Check:
    if tag.name in _LIMITS:
        return _LIMITS[tag.name](int(tag.value))
    match tag.name:
        case "required":
            return checks.check_required(field.shape.has_value)
        case "immutable":
            return checks.check_immutable
        case "monotonic":
            return checks.check_monotonic
        case "update":
            return checks.check_update(tag.value.split(","), field.shape.has_value, field.item_key)
        case "enum":
            return checks.check_enum(tag.value.split("|"))
        case "format":
            return checks.check_format(tag.value)
        case "listType" | "unique" if field.item_key is not None:
            return checks.check_unique(field.item_key)
        case "customValidation":
            return CUSTOM_CHECKS[f"{field.owner}.{field.name}"]
    raise ValueError(f"unknown validation tag of {field.owner}.{field.name}: {tag.name}")


def _compile_wrapper(field: TaggedField, tag: Tag, payload: Tag) -> Iterator[tuple[bool, ValidationStep]]:
    if tag.name == "item":
        yield False, _compile_item_union(field, tag)
        return
    shape = field.shape
    if tag.name in ("eachKey", "eachVal"):
        shape = FieldShape("", False, None if tag.name == "eachKey" else shape.struct)
    for is_gatekeeper, step in _compile_tag(replace(field, shape=shape), payload):
        if tag.name in ("ifDisabled", "ifEnabled"):
            yield is_gatekeeper, OptionStep(step, tag.argument, tag.name == "ifEnabled")
        elif tag.name == "subfield":
            yield is_gatekeeper, SubfieldStep(step, tag.argument)
        elif tag.name == "eachKey":
            yield False, EachKeyStep(step)
        else:
            yield False, EachValueStep(step, field.shape.container, field.item_key)


def _compile_item_union(field: TaggedField, tag: Tag) -> UnionStep:
    """Return the rule that at most one of the named items is in the list."""
    members: dict[str, HasValue] = {}
    for argument in tag.value.split(","):
        key, value = (part.strip() for part in argument.split(":"))
        name = f'{field.name}[{{"{key}": "{value}"}}]'
        members[name] = _has_item(key, value)
    return UnionStep(members, may_be_empty=True)


def _has_item(key: str, value: str) -> HasValue:
    return lambda items: any(getattr(item, key) == value for item in items or ())


# -- structs -------------------------------------------------------------------------------------------------------


def _compile_struct(fields: Mapping[str, TaggedField]) -> Iterator[ValidationStep]:
    """Yield the steps that concern several fields, each at its first tag."""
    compiled: set[str] = set()
    for field in fields.values():
        for tag in field.tags:
            if tag.name not in _OF_STRUCT or tag.is_alpha or tag.name in compiled:
                continue
            if tag.name in ("dependentForbidden", "dependentRequired"):
                yield _compile_dependency(field, tag, fields)
                continue
            compiled.add(tag.name)
            yield from _compile_union(fields) if tag.name == "unionMember" else _compile_modes(fields)


def _compile_dependency(field: TaggedField, tag: Tag, fields: Mapping[str, TaggedField]) -> DependencyStep:
    dependent = fields[tag.argument]
    return DependencyStep(
        field.name,
        field.shape.has_value,
        dependent.name,
        dependent.shape.has_value,
        is_forbidden=tag.name == "dependentForbidden",
    )


def _compile_union(fields: Mapping[str, TaggedField]) -> Iterator[ValidationStep]:
    members = {
        name: _has_field(name, field.shape.has_value)
        for name, field in fields.items()
        if any(tag.name == "unionMember" for tag in field.tags)
    }
    yield UnionStep(members, may_be_empty=False)


def _has_field(name: str, has_value: HasValue) -> HasValue:
    return lambda value: has_value(getattr(value, name))


def _compile_modes(fields: Mapping[str, TaggedField]) -> Iterator[ValidationStep]:
    """Yield, for each field that depends on the discriminator, its steps by the value of that."""
    discriminator = next(
        field.name for field in fields.values() if any(tag.name == "modeDiscriminator" for tag in field.tags)
    )
    for name, field in sorted(fields.items()):
        modes: dict[str, list[ValidationStep]] = {}
        for tag in field.tags:
            if tag.name == "ifMode" and tag.payload is not None:
                gatekeepers, steps = _compile_tags(field, [tag.payload])
                modes.setdefault(tag.argument, []).extend([*(gate.step for gate in gatekeepers), *steps])
        if modes:
            otherwise = CheckStep(checks.check_forbidden(field.shape.has_value))
            yield ModeStep(name, discriminator, modes, otherwise)
