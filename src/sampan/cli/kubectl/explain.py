"""`kubectl explain`: show the documentation of a resource type and its fields."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import KubectlError, PlainError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.resource_type import ResourceType
from sampan.cli.kubectl.schema_text import SchemaText

_PLAIN, _PLAIN_V2 = "plaintext", "plaintext-openapiv2"


@click.command("explain", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("--recursive", is_flag=True, help="List the fields of fields, without descriptions.")
@click.option("--api-version", default="", metavar="VERSION", help="API version of the type, for example apps/v1.")
@click.option("-o", "--output", default=_PLAIN, metavar="FORMAT", help=f"Output: {_PLAIN} or {_PLAIN_V2}.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the documentation of a resource type or of one of its fields."""
    if not words:
        raise KubectlError(
            'You must specify the type of resource to explain. Use "kubectl api-resources" for a complete list of '
            "supported resources."
        )
    if len(words) > 1:
        raise KubectlError("We accept only this format: explain RESOURCE")
    kind, path = _kind_and_path(factory, words[0], has_version=bool(options["api_version"]))
    group, version = kind.group, kind.version
    if options["api_version"]:
        group, _, version = options["api_version"].rpartition("/")
    if options["output"] == _PLAIN_V2:
        click.echo(_explain_v2(factory, kind, group, version, path, options["recursive"]), nl=False)
        return
    if options["output"] != _PLAIN:
        raise KubectlError(f"unrecognized format: {options['output']}")
    click.echo(_explain(factory, kind, group, version, path, options["recursive"]), nl=False)


def _kind_and_path(factory: Factory, word: str, *, has_version: bool) -> tuple[ResourceType, list[str]]:
    """Split `deployments.apps.spec.replicas` into a resource type and the names of fields."""
    text = word.removesuffix(".")
    name, _, rest = text.partition(".")
    try:
        kind = factory.kinds.named(name)
    except KubectlError as error:
        raise PlainError(error.message) from None
    qualified = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    if not has_version and (text == qualified or text.startswith(f"{qualified}.")):
        rest = text[len(qualified) :].removeprefix(".")
    return kind, [field for field in rest.split(".") if field]


def _explain(
    factory: Factory, kind: ResourceType, group: str, version: str, path: list[str], is_recursive: bool
) -> str:
    location = f"apis/{group}/{version}" if group else f"api/{version}"
    entry = (factory.session.get("/openapi/v3").get("paths") or {}).get(location)
    resource = f"{group}/{version}, Resource={kind.plural}"
    if entry is None:
        raise KubectlError(f'couldn\'t find resource for "{resource}"')
    import msgspec

    document = msgspec.json.decode(factory.session.read(str(entry["serverRelativeURL"])))
    text = SchemaText(document)
    identity = text.kind_of(group, version, kind.plural)
    if identity is None:
        raise PlainError(f"error: GVR ({resource}) not found in OpenAPI schema")
    schema = text.schema_of(identity)
    if schema is None:
        raise PlainError(f"error: GVK {dict(identity)} not found in OpenAPI schema")
    title = f"GROUP:      {identity['group']}\n" if identity.get("group") else ""
    title += f"KIND:       {identity['kind']}\nVERSION:    {identity['version']}\n\n"
    body = text.render(schema, path, is_recursive=is_recursive)
    if not body:
        click.echo(title, nl=False)
        raise PlainError(f'error: field "{path[-1]}" does not exist')
    return f"{title}{body}\n"


def _explain_v2(
    factory: Factory, kind: ResourceType, group: str, version: str, path: list[str], is_recursive: bool
) -> str:
    from sampan.cli.kubectl.schema_text_v2 import SchemaTextV2

    document = factory.session.get("/openapi/v2")
    text = SchemaTextV2(document)
    model = text.model_of(group, version, kind.kind)
    if model is None:
        separator = f"{group}/{version}" if group else f"/{version}"
        raise KubectlError(f'couldn\'t find resource for "{separator}, Kind={kind.kind}"')
    return text.render(model, path, group=group, version=version, kind=kind.kind, is_recursive=is_recursive)
