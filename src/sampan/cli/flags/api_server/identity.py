"""The flags of kube-apiserver for authentication and authorization through files and webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sampan.apiserver.authz.modes import DEFAULT, MODES, WEBHOOK, Mode, type_of
from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.apiserver.authn.front_proxy import FrontProxySettings
    from sampan.apiserver.authn.oidc import JwtIssuer

FLAGS = (
    Flag(
        name="--authentication-config",
        help="AuthenticationConfiguration file with JWT issuers and the paths open to anonymous requests.",
        metavar="F",
    ),
    Flag(
        name="--authentication-token-webhook-config-file",
        help="Kubeconfig file of the webhook that authenticates bearer tokens with TokenReviews.",
        metavar="F",
    ),
    Flag(
        name="--authentication-token-webhook-version",
        help="API version of the TokenReviews sent to the webhook: v1 or v1beta1.",
        default="v1beta1",
        metavar="V",
    ),
    Flag(
        name="--authentication-token-webhook-cache-ttl",
        help="How long responses of the token authentication webhook are cached.",
        default="2m0s",
        metavar="T",
    ),
    Flag(
        name="--authorization-config",
        help="AuthorizationConfiguration file with the chain of authorizers; replaces --authorization-mode.",
        metavar="F",
    ),
    Flag(
        name="--authorization-webhook-config-file",
        help="Kubeconfig file of the webhook that authorizes requests with SubjectAccessReviews.",
        metavar="F",
    ),
    Flag(
        name="--authorization-webhook-version",
        help="API version of the SubjectAccessReviews sent to the webhook: v1 or v1beta1.",
        default="v1beta1",
        metavar="V",
    ),
    Flag(
        name="--authorization-webhook-cache-authorized-ttl",
        help='How long "authorized" responses of the authorization webhook are cached.',
        default="5m0s",
        metavar="T",
    ),
    Flag(
        name="--authorization-webhook-cache-unauthorized-ttl",
        help='How long "unauthorized" responses of the authorization webhook are cached.',
        default="30s",
        metavar="T",
    ),
    Flag(
        name="--oidc-issuer-url",
        help="URL of the OpenID Connect issuer whose ID tokens are accepted; https only.",
        default="",
        metavar="URL",
    ),
    Flag(
        name="--oidc-client-id", help="Client ID that ID tokens must have as their audience.", default="", metavar="ID"
    ),
    Flag(
        name="--oidc-ca-file",
        help="CA certificates that verify the OpenID Connect issuer. Default: the system's CA certificates.",
        metavar="F",
    ),
    Flag(
        name="--oidc-username-claim", help="Claim of the ID token that holds the user name.", default="sub", metavar="C"
    ),
    Flag(
        name="--oidc-username-prefix",
        help="Prefix of user names from ID tokens; - means none. Default: ISSUER-URL#, or none for the claim email.",
        default="",
        metavar="P",
    ),
    Flag(
        name="--oidc-groups-claim",
        help="Claim of the ID token that holds the groups of the user.",
        default="",
        metavar="C",
    ),
    Flag(name="--oidc-groups-prefix", help="Prefix of group names from ID tokens.", default="", metavar="P"),
    Flag(
        name="--oidc-signing-algs",
        help="Accepted signing algorithms of ID tokens, comma-separated.",
        default="RS256",
        metavar="A,…",
    ),
    Flag(
        name="--oidc-required-claim",
        help="Claim KEY=VALUE that an ID token must have; can be given several times.",
        metavar="K=V",
        is_repeatable=True,
    ),
    Flag(
        name="--requestheader-client-ca-file",
        help="CA certificates that verify authenticating proxies, which name the user in request headers.",
        metavar="F",
    ),
    Flag(
        name="--requestheader-allowed-names",
        help="Common names of certificates accepted from authenticating proxies. Default: any.",
        default="",
        metavar="N,…",
    ),
    Flag(
        name="--requestheader-username-headers",
        help="Request headers in which an authenticating proxy passes the user name.",
        default="",
        metavar="H,…",
    ),
    Flag(
        name="--requestheader-uid-headers",
        help="Request headers in which an authenticating proxy passes the UID of the user.",
        default="",
        metavar="H,…",
    ),
    Flag(
        name="--requestheader-group-headers",
        help="Request headers in which an authenticating proxy passes the groups of the user.",
        default="",
        metavar="H,…",
    ),
    Flag(
        name="--requestheader-extra-headers-prefix",
        help="Prefixes of request headers in which an authenticating proxy passes extra user attributes.",
        default="",
        metavar="P,…",
    ),
)
_MODE_OPTIONS = ("authorization_mode", "authorization_webhook_config_file")


def authentication(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ServerConfig for authentication."""
    settings: dict[str, Any] = {"front_proxy": _front_proxy(options), "token_webhook": _token_webhook(options)}
    path = parsers.file("--authentication-config", options["authentication_config"])
    issuer = _issuer(options)
    settings["jwt_issuers"] = [issuer] if issuer is not None else []
    anonymous = options["anonymous_auth"]
    settings["allows_anonymous"] = anonymous is not False
    if path is not None:
        settings |= _read_authentication_config(path, options["service_account_issuer"], issuer, anonymous)
    return settings


def authorization(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ServerConfig for authorization."""
    path = parsers.file("--authorization-config", options["authorization_config"])
    if path is None:
        return {"authorization_modes": _modes(options)}
    for name in _MODE_OPTIONS:
        if options[name]:
            raise CliError(f"--authorization-config: cannot be given together with --{name.replace('_', '-')}")
    from sampan.apiserver.authz.authorization_configuration import read_authorization
    from sampan.machinery.config_file import ConfigFileError

    try:
        return {"authorization_modes": read_authorization(path), "authorization_config": path}
    except ConfigFileError as error:
        raise CliError(f"--authorization-config: {path}: {error}") from None


def authorization_names(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the authorization modes, from flags or from the configuration file."""
    return [type_of(mode) for mode in authorization(options)["authorization_modes"]]


def _mode_names(options: Mapping[str, Any]) -> tuple[str, ...]:
    modes = parsers.names("--authorization-mode", options["authorization_mode"], MODES)
    if not modes and options["authorization_mode"]:
        raise CliError("--authorization-mode: at least one must be given")
    for mode in modes:
        if modes.count(mode) > 1:
            raise CliError(f"--authorization-mode: {mode} is given twice")
    return modes or DEFAULT


def _modes(options: Mapping[str, Any]) -> Sequence[Mode]:
    flag, path = "--authorization-webhook-config-file", options["authorization_webhook_config_file"]
    modes = _mode_names(options)
    if WEBHOOK in modes and not path:
        raise CliError(f"{flag}: required by authorization mode {WEBHOOK}")
    if path and WEBHOOK not in modes:
        raise CliError(f"{flag}: used only by authorization mode {WEBHOOK}")
    if not path:
        return modes
    from sampan.apiserver.authz.webhook import WebhookSettings

    ttl = "authorization_webhook_cache_{}_ttl"
    settings = WebhookSettings(
        access=parsers.access(flag, path),
        version=_version("--authorization-webhook-version", options["authorization_webhook_version"]),
        allowed_s=parsers.duration_s("--authorization-webhook-cache-authorized-ttl", options[ttl.format("authorized")]),
        refused_s=parsers.duration_s(
            "--authorization-webhook-cache-unauthorized-ttl", options[ttl.format("unauthorized")]
        ),
    )
    return [settings if mode == WEBHOOK else mode for mode in modes]


def _read_authentication_config(
    path: Path, own_issuers: Sequence[str], issuer: JwtIssuer | None, anonymous: bool | None
) -> dict[str, Any]:
    from sampan.apiserver.authn.authentication_configuration import read_authentication
    from sampan.machinery.config_file import ConfigFileError

    flag = "--authentication-config"
    try:
        config = read_authentication(path, own_issuers)
    except ConfigFileError as error:
        raise CliError(f"{flag}: {path}: {error}") from None
    if issuer is not None:
        raise CliError(f"{flag}: cannot be given together with --oidc-issuer-url")
    settled: dict[str, Any] = {"jwt_issuers": config.issuers, "authentication_config": path}
    if not config.is_anonymous_set:
        return settled
    if anonymous is not None:
        raise CliError(f"{flag}: has an anonymous section, and --anonymous-auth is set; only one of them is allowed")
    return {**settled, "allows_anonymous": config.allows_anonymous, "anonymous_paths": config.anonymous_paths}


def _token_webhook(options: Mapping[str, Any]) -> Any:
    flag, path = "--authentication-token-webhook-config-file", options["authentication_token_webhook_config_file"]
    if not path:
        return None
    from sampan.apiserver.authn.token_webhook import TokenWebhookSettings

    ttl, version = "authentication_token_webhook_cache_ttl", "authentication_token_webhook_version"
    return TokenWebhookSettings(
        access=parsers.access(flag, path),
        version=_version("--authentication-token-webhook-version", options[version]),
        kept_s=parsers.duration_s("--authentication-token-webhook-cache-ttl", options[ttl]),
    )


def _version(flag: str, text: str) -> Literal["v1", "v1beta1"]:
    if text == "v1":
        return "v1"
    if text == "v1beta1":
        return "v1beta1"
    raise CliError(f"{flag}: there is no {text!r}; supported: v1, v1beta1")


def _issuer(options: Mapping[str, Any]) -> JwtIssuer | None:
    """Return the issuer configured by the --oidc flags."""
    url, client = options["oidc_issuer_url"], options["oidc_client_id"]
    if bool(url) != bool(client):
        raise CliError("--oidc-issuer-url and --oidc-client-id: give both or neither")
    if not url:
        return None
    from sampan.apiserver.authn.oidc import ALGORITHMS, JwtIssuer
    from sampan.apiserver.authn.oidc.issuers import url_errors

    if errors := url_errors(url):
        raise CliError(f"--oidc-issuer-url: {errors[0]}")
    ca, claim, prefix = options["oidc_ca_file"], options["oidc_username_claim"], options["oidc_username_prefix"]
    bundle = parsers.authority("--oidc-ca-file", ca)
    default_prefix = "" if claim == "email" else f"{url}#"
    return JwtIssuer(
        url=url,
        audiences=(client,),
        ca_pem=bundle.read_bytes() if bundle is not None else b"",
        username_claim=claim,
        username_prefix="" if prefix == "-" else prefix or default_prefix,
        groups_claim=options["oidc_groups_claim"],
        groups_prefix=options["oidc_groups_prefix"],
        required=_parse_required_claims(options["oidc_required_claim"]),
        algorithms=parsers.names("--oidc-signing-algs", options["oidc_signing_algs"], ALGORITHMS),
    )


def _parse_required_claims(pairs: Sequence[str]) -> dict[str, str]:
    claims: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise CliError(f"--oidc-required-claim: want CLAIM=VALUE, not {pair!r}")
        claims[key] = value
    return claims


def _front_proxy(options: Mapping[str, Any]) -> FrontProxySettings | None:
    ca = parsers.file("--requestheader-client-ca-file", options["requestheader_client_ca_file"])
    names = {
        part: tuple(word.strip() for word in options[f"requestheader_{part}"].split(",") if word.strip())
        for part in ("allowed_names", "username_headers", "uid_headers", "group_headers", "extra_headers_prefix")
    }
    if ca is None:
        for part, words in names.items():
            if words and part != "allowed_names":
                raise CliError(f"--requestheader-{part.replace('_', '-')}: needs --requestheader-client-ca-file")
        return None
    if not names["username_headers"]:
        raise CliError("--requestheader-username-headers: --requestheader-client-ca-file needs it")
    parsers.authority("--requestheader-client-ca-file", options["requestheader_client_ca_file"])
    from sampan.apiserver.authn.front_proxy import FrontProxySettings

    return FrontProxySettings(
        ca=ca,
        allowed_names=names["allowed_names"],
        username_headers=names["username_headers"],
        uid_headers=names["uid_headers"],
        group_headers=names["group_headers"],
        extra_prefixes=names["extra_headers_prefix"],
    )
