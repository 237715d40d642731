"""--overrides and --override-type of `run` and `expose`: a patch of the generated object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sampan.cli.kubectl.errors import KubectlError
from sampan.cli.kubectl.options import Decorator


def override_options() -> Decorator:
    overrides = click.option(
        "--overrides", default="", metavar="JSON", help="Patch of the generated object, for fields without a flag."
    )
    kind = click.option(
        "--override-type", default="merge", metavar="json|merge|strategic", help="Type of the patch in --overrides."
    )
    return lambda command: overrides(kind(command))


def with_overrides(value: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object after the patch of --overrides."""
    if not options["overrides"]:
        return value
    from sampan.api.codec import yaml
    from sampan.cli.kubectl.patch_metadata import built_in_schema
    from sampan.machinery import patch as patches

    try:
        patch = yaml.decode(options["overrides"].encode()).value
        if options["override_type"] == "json":
            result: dict[str, Any] = patches.apply_json_patch(value, patches.check_json_patch(patch))
            return result
        if options["override_type"] == "strategic":
            schema = built_in_schema(value["apiVersion"], value["kind"])
            assert schema is not None
            return patches.apply_strategic_patch(value, patches.check_strategic_patch(patch), schema)
        if options["override_type"] == "merge":
            return patches.apply_merge_patch(value, patches.check_merge_patch(patch))
    except (patches.PatchError, yaml.YamlError) as error:
        raise KubectlError(f"{error}") from None
    raise KubectlError(f"invalid override type: {options['override_type']}")
