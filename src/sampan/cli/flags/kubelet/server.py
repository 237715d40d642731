"""The flags of the kubelet for its ports, its certificates and its runtime."""

from __future__ import annotations

from sampan.cli.flags.flag_table import Flag
from sampan.cli.flags.kubelet import values
from sampan.machinery.pki.server_tls import DEFAULT_VERSION

SERVER_FLAGS = (
    Flag(
        name="--address",
        help="IP address on which the kubelet serves.",
        default="0.0.0.0",
        config_field="address",
        parse=values.text,
    ),
    Flag(
        name="--port",
        help="HTTPS port of the kubelet; 0 disables it.",
        default=10250,
        type=int,
        config_field="port",
        target="port",
        parse=values.number,
    ),
    Flag(
        name="--read-only-port",
        help="Port that serves read-only information over HTTP without authentication; 0 disables it.",
        default=0,
        type=int,
        config_field="readOnlyPort",
        parse=values.number,
    ),
    Flag(
        name="--cadvisor-port",
        help="Port that serves information about the machine and its containers over HTTP; 0 disables it.",
        default=0,
        type=int,
        parse=values.number,
    ),
    Flag(
        name="--healthz-bind-address",
        help="IP address on which the health check of the kubelet is served.",
        default="127.0.0.1",
        config_field="healthzBindAddress",
        parse=values.text,
    ),
    Flag(
        name="--healthz-port",
        help="HTTP port for the health check of the kubelet; 0 disables it.",
        default=10248,
        type=int,
        config_field="healthzPort",
        parse=values.number,
    ),
    Flag(
        name="--enable-debugging-handlers",
        help="Serve logs, exec, attach and port-forward on the HTTPS port.",
        default=True,
        is_switch=True,
        config_field="enableDebuggingHandlers",
        parse=values.switch,
    ),
    Flag(
        name="--tls-cert-file",
        help="Serving certificate of the HTTPS port. Default: a self-signed certificate.",
        default="",
        config_field="tlsCertFile",
        parse=values.text,
    ),
    Flag(
        name="--tls-private-key-file",
        help="Private key that belongs to --tls-cert-file.",
        default="",
        config_field="tlsPrivateKeyFile",
        parse=values.text,
    ),
    Flag(
        name="--tls-min-version",
        help="Oldest TLS version that the HTTPS port accepts: VersionTLS12 or VersionTLS13.",
        default=DEFAULT_VERSION,
        config_field="tlsMinVersion",
        parse=values.text,
    ),
    Flag(
        name="--tls-cipher-suites",
        help="Cipher suites of TLS 1.2 that the HTTPS port accepts, comma-separated; those of TLS 1.3 are always "
        "accepted. Default: the suites of OpenSSL.",
        default=(),
        config_field="tlsCipherSuites",
        parse=values.words,
    ),
    Flag(
        name="--client-ca-file",
        help="CA certificates that verify clients of the HTTPS port. Default: the CA of the kubeconfig.",
        default="",
        config_field="authentication.x509.clientCAFile",
        parse=values.text,
    ),
    Flag(
        name="--anonymous-auth",
        help="Accept requests to the HTTPS port without credentials as the user system:anonymous.",
        default=False,
        is_switch=True,
        config_field="authentication.anonymous.enabled",
        parse=values.switch,
    ),
    Flag(
        name="--rotate-certificates",
        help="Request a new client certificate before the current one expires.",
        default=True,
        is_switch=True,
        config_field="rotateCertificates",
        parse=values.switch,
    ),
    Flag(
        name="--rotate-server-certificates",
        help="Request the serving certificate from the cluster, and a new one before it expires.",
        default=False,
        is_switch=True,
        config_field="serverTLSBootstrap",
        parse=values.switch,
    ),
    Flag(
        name="--runtime-request-timeout",
        help="Timeout of requests to the container runtime, except long-running ones.",
        default="2m0s",
        config_field="runtimeRequestTimeout",
        parse=values.seconds,
    ),
    Flag(
        name="--sync-frequency",
        help="How often each pod is synced although nothing has changed.",
        default="1m0s",
        config_field="syncFrequency",
        target="relist_s",
        parse=values.seconds,
    ),
    Flag(
        name="--fail-swap-on",
        help="Accepted for compatibility; swap is not checked.",
        default=False,
        is_switch=True,
        config_field="failSwapOn",
        parse=values.switch,
    ),
    Flag(
        name="--container-runtime-endpoint",
        help="Socket of the CRI runtime, for example unix:///run/containerd/containerd.sock.",
        default="",
        config_field="containerRuntimeEndpoint",
        parse=values.text,
    ),
)
