"""The flags for the CA that signs CertificateSigningRequests: one for all signers, or one for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.cli import flags
from sampan.cli.failures import CliError

_SIGNERS = {
    "kube-apiserver-client": "kubernetes.io/kube-apiserver-client",
    "kubelet-client": "kubernetes.io/kube-apiserver-client-kubelet",
    "kubelet-serving": "kubernetes.io/kubelet-serving",
    "legacy-unknown": "kubernetes.io/legacy-unknown",
}
OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--cluster-signing-cert-file",),
        {"metavar": "F", "help": "CA certificate that signs approved CertificateSigningRequests."},
    ),
    (
        ("--cluster-signing-key-file",),
        {"metavar": "F", "help": "Private key that belongs to --cluster-signing-cert-file."},
    ),
    (
        ("--cluster-signing-duration",),
        {
            "default": "8760h0m0s",
            "metavar": "T",
            "help": "Longest validity of a certificate issued for a CertificateSigningRequest.",
        },
    ),
    *(
        (
            (f"--cluster-signing-{signer}-{part}-file",),
            {
                "metavar": "F",
                "help": f"{what} that signs requests for the signer {signer}, instead of the cluster-wide one.",
            },
        )
        for signer in _SIGNERS
        for part, what in (("cert", "CA certificate"), ("key", "Private key of the CA"))
    ),
)


def signing(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ControllerConfig for signing."""
    start = "--cluster-signing"
    certificate, key = _pair(options, start)
    own = {name: pair for short, name in _SIGNERS.items() if all(pair := _pair(options, f"{start}-{short}"))}
    if own and certificate:
        raise CliError(f"{start}-cert-file: cannot be given together with a CA for a single signer")
    return {
        "cluster_signing_cert_file": certificate,
        "cluster_signing_key_file": key,
        "cluster_signing_files": own,
        "cluster_signing_duration_s": _duration_s(options),
    }


def _pair(options: Mapping[str, Any], start: str) -> tuple[str, str]:
    flag_names = (f"{start}-cert-file", f"{start}-key-file")
    files = [flags.file(flag, options[flag.lstrip("-").replace("-", "_")]) for flag in flag_names]
    certificate, key = (str(file) if file is not None else "" for file in files)
    if bool(certificate) != bool(key):
        raise CliError(f"{' and '.join(flag_names)}: give both or neither")
    return certificate, key


def _duration_s(options: Mapping[str, Any]) -> float:
    flag = "--cluster-signing-duration"
    seconds = flags.duration_s(flag, options["cluster_signing_duration"])
    if seconds <= 0:
        raise CliError(f"{flag}: must be longer than nothing")
    return seconds
