"""The rules that the compiler makes of tags, and how they are run.

Rules exist only where an enforced tag is at or below a field, so all other parts of an object cost nothing. On an
update, a part that is equal to its old state is not validated (ratcheting). The cost is linear in the size of the
object: items of lists find their old state by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import Struct

from sampan.api import limits
from sampan.api.field_errors import FieldError
from sampan.apiserver.registry.declarative.checks import Check, HasValue, ItemKey

IsEnabled = Callable[[str], bool]


class TooManyErrors(Exception):
    """The errors are as many as a response can hold."""


@dataclass(slots=True)
class Validation:
    """The validation of one object."""

    is_update: bool
    is_enabled: IsEnabled
    validates_immutable_parts: bool = True
    errors: list[FieldError] = field(default_factory=list)
    character_budget: int = limits.VALIDATION_ERROR_CHARACTERS

    def add(self, errors: Iterable[FieldError]) -> bool:
        """Collect errors, and tell whether there were any."""
        has_errors = False
        for error in errors:
            has_errors = True
            self.errors.append(error)
            self.character_budget -= len(error.field) + len(error.detail)
            if self.character_budget < 0 or len(self.errors) >= limits.VALIDATION_ERRORS:
                raise TooManyErrors
        return has_errors


def _any_failed(results: Iterable[bool]) -> bool:
    """Whether any result is true. In contrast to `any`, all steps run."""
    return sum(results) > 0


class ValidationStep(Protocol):
    """A part of the validation of a value."""

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        """Collect the errors of the value, and tell whether there were any."""
        ...


@dataclass(frozen=True, slots=True)
class CheckStep:
    check: Check
    is_reported: bool = True

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        errors = self.check(value, old, path, validation.is_update)
        return validation.add(errors) if self.is_reported else any(True for _ in errors)


@dataclass(frozen=True, slots=True)
class OptionStep:
    """A step that applies if an option is on, or if it is off."""

    step: ValidationStep
    option: str
    applies_if: bool

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        return validation.is_enabled(self.option) is self.applies_if and self.step.run(validation, value, old, path)


@dataclass(frozen=True, slots=True)
class SubfieldStep:
    step: ValidationStep
    name: str

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        part, old_part = getattr(value, self.name), getattr(old, self.name) if old is not None else None
        if validation.is_update and old is not None and is_equal(part, old_part):
            return False
        return self.step.run(validation, part, old_part, f"{path}.{self.name}")


@dataclass(frozen=True, slots=True)
class EachKeyStep:
    """A step for the keys of a map, whose errors have the path of the map."""

    step: ValidationStep

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        keys = sorted(key for key in value or () if not (validation.is_update and key in (old or ())))
        return _any_failed(self.step.run(validation, key, None, path) for key in keys)


@dataclass(frozen=True, slots=True)
class EachValueStep:
    """A step for the items of a list or map."""

    step: ValidationStep
    container: str
    item_key: ItemKey | None

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        items = _changed_items(value, old, path, self)
        return _any_failed(self.step.run(validation, *item) for item in items)


@dataclass(frozen=True, slots=True)
class UnionStep:
    """How many of the members of a union must be set: exactly one, or at most one."""

    members: Mapping[str, Callable[[Any], bool]]
    """By the name that errors show, whether the member is set in the value."""
    may_be_empty: bool

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        present = [name for name, has_value in self.members.items() if has_value(value)]
        if old is not None and present == [name for name, has_value in self.members.items() if has_value(old)]:
            return False
        every = ", ".join(f"`{name}`" for name in self.members)
        if len(present) > 1:
            count = "at most one" if self.may_be_empty else "exactly one"
            bad_value = f"{{{', '.join(present)}}}"
            return validation.add([FieldError.invalid(path, bad_value, f"must specify {count} of: {every}")])
        if not present and not self.may_be_empty:
            return validation.add([FieldError.invalid(path, "", f"must specify one of: {every}")])
        return False


@dataclass(frozen=True, slots=True)
class DependencyStep:
    """That a field must or must not be set if another one is."""

    trigger: str
    has_trigger: HasValue
    dependent: str
    has_dependent: HasValue
    is_forbidden: bool

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        state = self._state(value)
        if (old is not None and state == self._state(old)) or state != (True, self.is_forbidden):
            return False
        child = f"{path}.{self.dependent}"
        if self.is_forbidden:
            return validation.add([FieldError.forbidden(child, f"may not be set when {self.trigger} is set")])
        return validation.add([FieldError.required(child, f"must be set when {self.trigger} is set")])

    def _state(self, value: Any) -> tuple[bool, bool]:
        has_dependent = self.has_dependent(getattr(value, self.dependent))
        return self.has_trigger(getattr(value, self.trigger)), has_dependent


@dataclass(frozen=True, slots=True)
class ModeStep:
    """The validation of a field that depends on the value of another one, the discriminator."""

    name: str
    discriminator: str
    steps: Mapping[str, Sequence[ValidationStep]]
    otherwise: ValidationStep

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        member, mode = getattr(value, self.name), getattr(value, self.discriminator)
        old_member = getattr(old, self.name) if old is not None else None
        if old is not None and mode == getattr(old, self.discriminator) and is_equal(member, old_member):
            return False
        steps = self.steps.get(mode, (self.otherwise,))
        return _any_failed(step.run(validation, member, old_member, f"{path}.{self.name}") for step in steps)


@dataclass(frozen=True, slots=True)
class StructRules:
    steps: Sequence[ValidationStep]
    """The steps that concern several fields; they come first."""
    fields: Sequence[FieldRules]

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        for step in self.steps:
            step.run(validation, value, old, path)
        for rules in self.fields:
            rules.run(validation, value, old, path)
        return False


@dataclass(frozen=True, slots=True)
class FieldRules:
    attribute: str
    name: str
    """The name on the wire."""
    gatekeepers: Sequence[Gatekeeper]
    """The steps that end the validation of the field if one of them fails; all of them run."""
    steps: Sequence[ValidationStep]
    is_optional: bool
    """Whether a new field without a value is valid, whatever the steps are."""
    is_pointer: bool

    def run(self, validation: Validation, parent: Any, old_parent: Any, path: str) -> None:
        value = getattr(parent, self.attribute)
        old = None
        if old_parent is not None:
            old = getattr(old_parent, self.attribute)
            # the parts of a struct without checks of its own are compared one by one where it matters
            if value == old if not self.gatekeepers and isinstance(value, Struct) else is_equal(value, old):
                return
        elif not validation.is_update and self.is_optional and not value and (value is None or not self.is_pointer):
            return
        path = f"{path}.{self.name}" if path else self.name
        errors, start, is_over = validation.errors, len(validation.errors), False
        for gatekeeper in self.gatekeepers:
            failed = gatekeeper.step.run(validation, value, old, path)
            is_over |= failed and not (gatekeeper.is_revalidated and validation.validates_immutable_parts)
        if is_over:
            return
        end = len(errors)
        for step in self.steps:
            step.run(validation, value, old, path)
        if end > start:  # the hand-written rules report the parts before the change
            errors[start:] = errors[end:] + errors[start:end]


@dataclass(frozen=True, slots=True)
class Gatekeeper:
    step: ValidationStep
    is_revalidated: bool = False
    """Whether hand-written rules of kube-apiserver validate the field even if this step fails, so that its errors are
    reported nevertheless: they are not covered by those of the tag."""


@dataclass(frozen=True, slots=True)
class NestedStep:
    """The rules of a struct, or of the structs in a list or map."""

    rules: StructRules
    container: str
    """"list" or "map", or nothing for a struct."""
    item_key: ItemKey | None

    def run(self, validation: Validation, value: Any, old: Any, path: str) -> bool:
        if self.container:
            for item in _changed_items(value, old, path, self):
                self.rules.run(validation, *item)
        elif value is not None:
            self.rules.run(validation, value, old, path)
        return False


def _changed_items(value: Any, old: Any, path: str, step: EachValueStep | NestedStep) -> Iterator[tuple[Any, Any, str]]:
    """Yield the items of a list or map that are not equal to their old states, with these and their paths."""
    if not value:
        return
    if step.container == "map":
        old_items = old or {}
        items = ((key, key, value[key]) for key in sorted(value))
    else:
        item_key = step.item_key or (lambda item: None)
        old_items = {item_key(item): item for item in reversed(old or ())} if step.item_key is not None else {}
        items = ((index, item_key(item), item) for index, item in enumerate(value))
    for position, key, item in items:
        old_item = old_items.get(key) if old_items else None
        if old_item is None or not is_equal(item, old_item):
            yield item, old_item, f"{path}[{position}]"


def is_equal(value: Any, old: Any) -> bool:
    """Whether two values are equal, where a missing list or map is equal to an empty one."""
    if isinstance(value, Struct):
        if type(value) is not type(old):
            return False
        return value == old or all(
            is_equal(getattr(value, name), getattr(old, name)) for name in value.__struct_fields__
        )
    if not value and not old:
        return value == old or all(part is None or isinstance(part, list | dict) for part in (value, old))
    if isinstance(value, list) and isinstance(old, list):
        return len(value) == len(old) and all(map(is_equal, value, old))
    if isinstance(value, dict) and isinstance(old, dict):
        return value.keys() == old.keys() and all(is_equal(value[key], old[key]) for key in value)
    return bool(value == old)
