"""The flags for the CA that signs CertificateSigningRequests: one for all signers, or one for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.cli.failures import CliError
from sampan.cli.flags import parsers
from sampan.cli.flags.table import Flag

_SIGNERS = {
    "kube-apiserver-client": "kubernetes.io/kube-apiserver-client",
    "kubelet-client": "kubernetes.io/kube-apiserver-client-kubelet",
    "kubelet-serving": "kubernetes.io/kubelet-serving",
    "legacy-unknown": "kubernetes.io/legacy-unknown",
}
FLAGS = (
    Flag(
        name="--cluster-signing-cert-file",
        help="CA certificate that signs approved CertificateSigningRequests.",
        metavar="F",
    ),
    Flag(
        name="--cluster-signing-key-file", help="Private key that belongs to --cluster-signing-cert-file.", metavar="F"
    ),
    Flag(
        name="--cluster-signing-duration",
        help="Longest validity of a certificate issued for a CertificateSigningRequest.",
        default="8760h0m0s",
        metavar="T",
    ),
    *(
        Flag(
            name=f"--cluster-signing-{signer}-{part}-file",
            help=f"{what} that signs requests for the signer {signer}, instead of the cluster-wide one.",
            metavar="F",
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
        "cluster_signing_duration_s": parsers.positive_s(
            "--cluster-signing-duration", options["cluster_signing_duration"]
        ),
    }


def _pair(options: Mapping[str, Any], start: str) -> tuple[str, str]:
    flag_names = (f"{start}-cert-file", f"{start}-key-file")
    files = [parsers.file(flag, options[flag.lstrip("-").replace("-", "_")]) for flag in flag_names]
    certificate, key = (str(file) if file is not None else "" for file in files)
    if bool(certificate) != bool(key):
        raise CliError(f"{' and '.join(flag_names)}: give both or neither")
    return certificate, key
