"""--overrides: a patch of the object that `run` and `expose` generate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import flag_group, string_flag
from sampan.kubectl.errors import KubectlError


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideOptions:
    patch: str = string_flag(
        "--overrides", metavar="JSON", help="Patch of the generated object, for fields without a flag."
    )
    patch_type: str = string_flag(
        "--override-type", default="merge", metavar="json|merge|strategic", help="Type of the patch in --overrides."
    )


def override_flags() -> OverrideOptions:
    """Declare --overrides and --override-type, which `with_overrides` applies."""
    return flag_group(OverrideOptions)


def with_overrides(value: dict[str, Any], overrides: OverrideOptions) -> dict[str, Any]:
    """Return the object after the patch of --overrides."""
    if not overrides.patch:
        return value
    from sampan.api.codec import yaml
    from sampan.kubectl.objects.patch_metadata import built_in_schema
    from sampan.machinery import patch as patches

    try:
        patch = yaml.decode(overrides.patch.encode()).value
        if overrides.patch_type == "json":
            result: dict[str, Any] = patches.apply_json_patch(value, patches.check_json_patch(patch))
            return result
        if overrides.patch_type == "strategic":
            schema = built_in_schema(value["apiVersion"], value["kind"])
            assert schema is not None
            return patches.apply_strategic_patch(value, patches.check_strategic_patch(patch), schema)
        if overrides.patch_type == "merge":
            return patches.apply_merge_patch(value, patches.check_merge_patch(patch))
    except (patches.PatchError, yaml.YamlError) as error:
        raise KubectlError(f"{error}") from None
    raise KubectlError(f"invalid override type: {overrides.patch_type}")
