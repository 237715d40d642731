"""`kubectl config set-cluster`, `set-context` and `set-credentials`: create and change entries."""

from __future__ import annotations

import base64
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.command_line.command import CHANGED_FLAGS, KubectlCommand
from sampan.kubectl.command_line.flag_parser import STRING_SLICE, quote_text
from sampan.kubectl.commands.config.files import ConfigFiles, Entry, usage_failure
from sampan.kubectl.errors import KubectlError

_MODES = ("IfAvailable", "Always", "Never")


@click.command("set-cluster", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("--server", default="", metavar="URL", help="Address of the API server.")
@click.option("--tls-server-name", default="", metavar="NAME", help="Name that the server's certificate must have.")
@click.option("--insecure-skip-tls-verify", "insecure", is_flag=True, help="Do not verify the server's certificate.")
@click.option("--certificate-authority", default="", metavar="FILE", help="Certificate of the authority.")
@click.option("--embed-certs", is_flag=True, help="Store the content of the certificate in the kubeconfig.")
@click.option("--proxy-url", default="", metavar="URL", help="Proxy for requests to the server.")
@click.pass_context
def set_cluster(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Create or change a cluster entry."""
    if len(words) != 1:
        raise usage_failure(ctx, f"Unexpected args: [{' '.join(words)}]")
    if not words[0]:
        raise KubectlError("you must specify a non-empty cluster name")
    path = options["certificate_authority"]
    if options["insecure"] and path:
        raise KubectlError("you cannot specify a certificate authority and insecure mode at the same time")
    if options["embed_certs"]:
        if not path:
            raise KubectlError("you must specify a --certificate-authority to embed")
        _check_file("certificate-authority", path)
    files, changed = ConfigFiles(ctx.obj.flags), ctx.meta[CHANGED_FLAGS]
    entry = dict(files.load().entries["clusters"].get(words[0], {}))
    if "server" in changed:
        entry |= {"server": options["server"], "tls-server-name": ""}
    for name in ("tls_server_name", "proxy_url"):
        if name in changed:
            entry[name.replace("_", "-")] = options[name]
    if "insecure" in changed:
        entry["insecure-skip-tls-verify"] = options["insecure"]
        if options["insecure"]:
            entry |= {"certificate-authority": "", "certificate-authority-data": ""}
    if "certificate_authority" in changed:
        _set_file(entry, "certificate-authority", path, is_embedded=options["embed_certs"])
        entry["insecure-skip-tls-verify"] = False
    files.write_entry("clusters", words[0], entry)
    click.echo(f"Cluster {quote_text(words[0])} set.")


@click.command("set-context", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("--current", "is_current", is_flag=True, help="Change the current context.")
@click.option("--cluster", default="", metavar="NAME", help="Cluster of the context.")
@click.option("--user", default="", metavar="NAME", help="User of the context.")
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Namespace of the context.")
@click.pass_context
def set_context(ctx: click.Context, /, words: tuple[str, ...], is_current: bool, **options: Any) -> None:
    """Create or change a context entry."""
    if len(words) > 1:
        raise usage_failure(ctx, f"Unexpected args: [{' '.join(words)}]")
    name = words[0] if words else ""
    if not (name or is_current):
        raise KubectlError("you must specify a non-empty context name or --current")
    if name and is_current:
        raise KubectlError("you cannot specify both a context name and --current")
    files = ConfigFiles(ctx.obj.flags)
    config = files.load()
    if is_current:
        name = config.current_context
        if not name:
            raise KubectlError("no current context is set")
    contexts = config.entries["contexts"]
    entry = dict(contexts.get(name, {}))
    entry |= {key: options[key] for key in ("cluster", "user", "namespace") if key in ctx.meta[CHANGED_FLAGS]}
    files.write_entry("contexts", name, entry)
    click.echo(f"Context {quote_text(name)} {'modified' if name in contexts else 'created'}.")


@click.command("set-credentials", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("--client-certificate", default="", metavar="FILE", help="Client certificate.")
@click.option("--client-key", default="", metavar="FILE", help="Key of the client certificate.")
@click.option("--embed-certs", is_flag=True, help="Store the content of certificate and key in the kubeconfig.")
@click.option("--token", default="", metavar="TOKEN", help="Bearer token.")
@click.option("--username", default="", metavar="NAME", help="User name for basic authentication.")
@click.option("--password", default="", metavar="TEXT", help="Password for basic authentication.")
@click.option("--auth-provider", default="", metavar="NAME", help="Auth provider, for example oidc.")
@click.option(
    "--auth-provider-arg", multiple=True, type=STRING_SLICE, metavar="KEY=VALUE", help="Argument of the auth provider."
)
@click.option("--exec-command", default="", metavar="COMMAND", help="Command of the exec credential plug-in.")
@click.option("--exec-api-version", default="", metavar="VERSION", help="API version of the exec credential plug-in.")
@click.option("--exec-arg", multiple=True, type=STRING_SLICE, metavar="ARG", help="Argument of the credential plug-in.")
@click.option("--exec-env", multiple=True, metavar="KEY=VALUE", help="Environment variable of the plug-in.")
@click.option(
    "--exec-interactive-mode",
    default="",
    metavar="MODE",
    help="Whether the program may ask the user: IfAvailable, Always or Never.",
)
@click.option("--exec-provide-cluster-info", is_flag=True, help="Pass data about the cluster to the plug-in.")
@click.pass_context
def set_credentials(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Create or change a user entry."""
    if len(words) != 1:
        raise usage_failure(ctx, f"unexpected args: [{' '.join(words)}]")
    _check_credentials(words[0], options, ctx.meta[CHANGED_FLAGS])
    files = ConfigFiles(ctx.obj.flags)
    entry = dict(files.load().entries["users"].get(words[0], {}))
    _change_credentials(entry, options, ctx.meta[CHANGED_FLAGS])
    files.write_entry("users", words[0], entry)
    click.echo(f"User {quote_text(words[0])} set.")


def _check_credentials(name: str, options: dict[str, Any], changed: Collection[str]) -> None:
    if not name:
        raise KubectlError("you must specify a non-empty user name")
    if options["token"] and (options["username"] or options["password"]):
        methods = "--token, --username/--password"
        raise KubectlError(f"you cannot specify more than one authentication method at the same time: {methods}")
    if options["embed_certs"]:
        if not (options["client_certificate"] or options["client_key"]):
            raise KubectlError("you must specify a --client-certificate or --client-key to embed")
        for flag in ("client-certificate", "client-key"):
            if path := options[flag.replace("-", "_")]:
                _check_file(flag, path)
    if "exec_interactive_mode" in changed and options["exec_interactive_mode"] not in _MODES:
        raise KubectlError("invalid interactive mode type, can be only IfAvailable, Never, Always")


def _change_credentials(entry: Entry, options: dict[str, Any], changed: Collection[str]) -> None:
    for flag in ("client-certificate", "client-key"):
        if flag.replace("-", "_") in changed:
            path = options[flag.replace("-", "_")]
            _set_file(entry, flag, path, is_embedded=options["embed_certs"])
    entry |= {key: options[key] for key in ("token", "username", "password") if key in changed}
    if options["token"]:
        entry |= {"username": "", "password": ""}
    elif options["username"] or options["password"]:
        entry["token"] = ""
    if "auth_provider" in changed:
        present = entry.get("auth-provider") or {}
        if present.get("name") != options["auth_provider"]:
            entry["auth-provider"] = {"name": options["auth_provider"]}
    if entry.get("auth-provider"):
        arguments, removed = _pairs(options["auth_provider_arg"], "auth-provider-arg")
        present = dict(entry["auth-provider"].get("config") or {})
        config = {key: value for key, value in (present | arguments).items() if key not in removed}
        entry["auth-provider"] = {**entry["auth-provider"], "config": config}
    _change_exec(entry, options, changed)


def _change_exec(entry: Entry, options: dict[str, Any], changed: Collection[str]) -> None:
    plugin = dict(entry.get("exec") or {})
    if "exec_command" in changed:
        plugin |= {"command": options["exec_command"], "args": None}
    if not plugin:
        return
    if "exec_api_version" in changed:
        plugin["apiVersion"] = options["exec_api_version"]
    if options["exec_arg"]:
        plugin["args"] = list(options["exec_arg"])
    if "exec_interactive_mode" in changed:
        plugin["interactiveMode"] = options["exec_interactive_mode"]
    if "exec_provide_cluster_info" in changed:
        plugin["provideClusterInfo"] = options["exec_provide_cluster_info"]
    variables, removed = _pairs(options["exec_env"], "exec-env")
    if variables or removed:
        present = {item["name"]: item.get("value", "") for item in plugin.get("env") or ()} | variables
        plugin["env"] = [{"name": key, "value": value} for key, value in present.items() if key not in removed]
    entry["exec"] = plugin


def _pairs(texts: tuple[str, ...], flag: str) -> tuple[dict[str, str], set[str]]:
    """Return the pairs of `KEY=VALUE`, and the keys of `KEY-`, which are removed."""
    pairs, removed = {}, set()
    for text in texts:
        key, equals, value = text.partition("=")
        if equals and key:
            pairs[key] = value
        elif text.endswith("-") and not equals:
            removed.add(text[:-1])
        else:
            raise KubectlError(f"invalid {flag} format: {text}")
    return pairs, removed


def _set_file(entry: Entry, key: str, path: str, *, is_embedded: bool) -> None:
    if is_embedded:
        entry |= {f"{key}-data": base64.b64encode(Path(path).read_bytes()).decode(), key: ""}
    else:
        entry |= {key: os.path.abspath(path) if path else "", f"{key}-data": ""}


def _check_file(flag: str, path: str) -> None:
    try:
        os.stat(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KubectlError(f"could not stat {flag} file {path}: stat {path}: {reason}") from None
