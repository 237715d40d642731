"""Table columns of kinds with a pod template."""

from collections.abc import Callable
from typing import Any

from sampan.api.types.core_v1 import Container
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells


def _containers(obj: Any) -> list[Container]:
    return obj.spec.template.spec.containers or []


def container_columns(containers: Callable[[Any], list[Container]] = _containers) -> tuple[Column, Column]:
    """Return the columns with the names and images of the containers that `containers` returns."""
    return (
        Column(
            "Containers",
            lambda obj, now: cells.container_names(containers(obj)),
            description="Names of each container in the template.",
            wide=True,
        ),
        Column(
            "Images",
            lambda obj, now: cells.container_images(containers(obj)),
            description="Images referenced by each container in the template.",
            wide=True,
        ),
    )


SELECTOR = Column("Selector", lambda obj, now: cells.selector(obj.spec.selector), field="spec.selector", wide=True)


def count(name: str, field: str) -> Column:
    """Return a column with a number from the status."""
    return Column(name, lambda obj, now: getattr(obj.status, field), type="integer", field=f"status.{field}")
