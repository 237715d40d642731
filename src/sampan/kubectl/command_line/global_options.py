"""The flags that every command of kubectl takes: which server, which credentials, which namespace
(`genericclioptions.ConfigFlags`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from sampan.kubectl.command_line.flag_parser import DURATION, FILE_LEVELS, DeprecatedOption
from sampan.kubectl.errors import KubectlError

_GO_PROFILES = ("cpu", "heap", "goroutine", "threadcreate", "block", "mutex", "trace", "allocs")
_LOG_MESSAGE = "it has no effect: messages go to standard error"


def _text(*names: str, help: str, metavar: str = "TEXT", default: str = "") -> click.Option:
    return click.Option(names, default=default, metavar=metavar, help=help)


CONNECTION_OPTIONS = (
    _text("--kubeconfig", metavar="FILE", help="Path of the kubeconfig file."),
    _text("--context", "context_name", metavar="NAME", help="Name of the kubeconfig context to use."),
    _text("-s", "--server", metavar="URL", help="Address and port of the Kubernetes API server."),
    _text("--token", metavar="TOKEN", help="Bearer token for authentication to the API server."),
    click.Option(
        ("--insecure-skip-tls-verify", "insecure"),
        is_flag=True,
        help="Do not verify the certificate of the API server. This makes connections insecure.",
    ),
    _text("--name", "cluster_name", metavar="NAME", help="Name of the running Sampan cluster to use."),
)
"""The flags of all commands that talk to a cluster, also outside of `sampan kubectl`."""

GLOBAL_OPTIONS = (
    *CONNECTION_OPTIONS,
    _text("--as", "impersonated_user", metavar="USER", help="User to impersonate, also a service account."),
    click.Option(
        ("--as-group", "impersonated_groups"), multiple=True, metavar="GROUP", help="Group to impersonate; repeatable."
    ),
    _text("--as-uid", "impersonated_uid", metavar="UID", help="UID to impersonate."),
    click.Option(
        ("--as-user-extra", "impersonated_extra"),
        multiple=True,
        metavar="KEY=VALUE",
        help="Extra field of the user to impersonate; repeatable.",
    ),
    _text("--cache-dir", metavar="DIR", help="Directory for cached API discovery. Default: ~/.kube/cache."),
    _text("--certificate-authority", metavar="FILE", help="Certificate of the authority that signed the server's."),
    _text("--client-certificate", metavar="FILE", help="Client certificate for TLS."),
    _text("--client-key", metavar="FILE", help="Key of the client certificate."),
    _text("--cluster", "kubeconfig_cluster", metavar="NAME", help="Name of the kubeconfig cluster to use."),
    click.Option(("--disable-compression",), is_flag=True, help="Do not accept compressed responses."),
    _text("--kuberc", metavar="FILE", help="Path of the kuberc file with preferences."),
    click.Option(
        ("--log-flush-frequency",), type=DURATION, default=5.0, metavar="TIME", help="Accepted; logs are not buffered."
    ),
    click.Option(
        ("--match-server-version",), is_flag=True, help="Fail unless the server's version is that of the client."
    ),
    _text("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the objects."),
    _text("--password", metavar="TEXT", help="Password for basic authentication to the API server."),
    _text("--profile", default="none", metavar="NAME", help="Profile to capture; only none is supported."),
    _text("--profile-output", default="profile.pprof", metavar="FILE", help="Accepted; there is no profile."),
    _text(
        "--request-timeout",
        default="0",
        metavar="TIME",
        help="How long to wait for a response, for example 1s or 2m; 0 waits without limit.",
    ),
    _text("--tls-server-name", metavar="NAME", help="Name that the server's certificate must have."),
    _text("--user", "kubeconfig_user", metavar="NAME", help="Name of the kubeconfig user to use."),
    _text("--username", metavar="NAME", help="User name for basic authentication to the API server."),
    click.Option(("-v", "--v", "verbosity"), type=click.INT, default=0, metavar="N", help="Verbosity of log messages."),
    click.Option(
        ("--vmodule",),
        type=FILE_LEVELS,
        default="",
        metavar="PATTERN=N",
        help="Log levels of source files.",
    ),
    click.Option(("--warnings-as-errors",), is_flag=True, help="Exit with code 1 after a warning of the server."),
    *(
        DeprecatedOption((f"--{name}",), is_flag=True, expose_value=False, message=_LOG_MESSAGE)
        for name in (
            "alsologtostderr",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "add-dir-header",
        )
    ),
    *(
        DeprecatedOption((f"--{name}",), expose_value=False, message=_LOG_MESSAGE)
        for name in ("log-dir", "log-file", "log-file-max-size", "log-backtrace-at", "stderrthreshold")
    ),
)

__all__ = ["CONNECTION_OPTIONS", "GLOBAL_OPTIONS", "check_profile", "connection_options"]


def check_profile(name: str) -> None:
    """Raise KubectlError for the value of --profile: the profiles of kubectl are those of Go programs."""
    if name in _GO_PROFILES:
        raise KubectlError(f"--profile={name} is not supported: it profiles programs in Go")
    if name != "none":
        raise KubectlError(f"unknown profile '{name}'")


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `open_session` reads to a command outside of `sampan kubectl`."""

    def add(decorated: Callable[..., Any], option: click.Option) -> Callable[..., Any]:
        names = (str(option.name), *option.opts)
        return click.option(
            *names, default=option.default, is_flag=option.is_flag, metavar=option.metavar, help=option.help
        )(decorated)

    return functools.reduce(add, reversed(CONNECTION_OPTIONS), command)
