"""Every row of the table of controllers builds a controller of the same shape."""

import ast
import inspect
from importlib import import_module
from typing import get_type_hints

import pytest

from sampan.controllers.controller_table import CONTROLLERS
from sampan.controllers.descriptor import COLLABORATORS, ControllerDescriptor


def class_of(row: ControllerDescriptor) -> type:
    """Return the class that the row names, or that its factory returns."""
    module, _, attribute = row.controller.partition(":")
    factory = getattr(import_module(module), attribute)
    if isinstance(factory, type):
        return factory
    returned = get_type_hints(factory)["return"]
    controller: type = returned if isinstance(returned, type) else returned.__args__[0]
    return controller


@pytest.mark.parametrize("row", CONTROLLERS, ids=lambda row: row.name)
def test_the_shape_of_a_controller(row: ControllerDescriptor) -> None:
    controller = class_of(row)
    assert controller.__name__.endswith("Controller")
    assert vars(controller)["name"] == row.name
    parameters = inspect.signature(controller).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    hints = get_type_hints(inspect.getattr_static(controller, "__init__"))
    collaborators = {name: hints[name] for name in COLLABORATORS if name in hints and name != "config"}
    assert collaborators == {name: COLLABORATORS[name] for name in collaborators}
    assert "watches" not in vars(controller), "watches is an attribute of the instance"
    assert any("self.watches = (" in inspect.getsource(base) for base in controller.__mro__[:-1])


@pytest.mark.parametrize("row", CONTROLLERS, ids=lambda row: row.name)
def test_a_module_names_a_factory_only_if_the_class_needs_more_than_collaborators(row: ControllerDescriptor) -> None:
    controller = class_of(row)
    if row.controller.endswith(":make"):
        source = ast.parse(inspect.getsource(import_module(row.controller.partition(":")[0])))
        assert any(isinstance(node, ast.FunctionDef) and node.name == "make" for node in source.body)
    else:
        assert inspect.signature(controller).parameters.keys() <= COLLABORATORS.keys()
