"""Why the certificate of a server is not accepted, in the words of Go (`crypto/x509`)."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime

_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
"""Codes of OpenSSL for a chain of certificates that does not end at a trusted one."""
_NOT_YET_VALID, _EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 9, 10, 62, 64
_TIMEOUT_S = 10


def verification_error(error: ssl.SSLCertVerificationError, host: str, port: int, name: str) -> str:
    """Return why the certificate of a server was rejected; `name` is the name that the certificate should have."""
    text = error.verify_message or str(error)
    if error.verify_code in _UNKNOWN_AUTHORITY:
        text = "certificate signed by unknown authority"
    elif error.verify_code in (_NOT_YET_VALID, _EXPIRED, _WRONG_NAME, _WRONG_ADDRESS):
        text = _detail(error.verify_code, host, port, name) or text
    return f"tls: failed to verify certificate: x509: {text}"


def _detail(code: int, host: str, port: int, name: str) -> str:
    """Return the reason with values of the certificate, such as its names or its expiry; empty if they cannot be read.
    The certificate is fetched again, because OpenSSL does not return a certificate that it rejects."""
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(_fetch(host, port, name))
    except (OSError, ValueError):
        return ""
    if code in (_WRONG_NAME, _WRONG_ADDRESS):
        return _name_error(certificate, name)
    now, prefix = datetime.now(UTC), "certificate has expired or is not yet valid: current time"
    if code == _EXPIRED:
        return f"{prefix} {_time(now)} is after {_time(certificate.not_valid_after_utc)}"
    return f"{prefix} {_time(now)} is before {_time(certificate.not_valid_before_utc)}"


def _fetch(host: str, port: int, name: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=name) as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


def _name_error(certificate: object, name: str) -> str:
    import ipaddress

    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "certificate relies on legacy Common Name field, use SANs instead"
    try:
        ipaddress.ip_address(name)
        valid_names = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        if not valid_names:
            return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
    except ValueError:
        valid_names = names.get_values_for_type(x509.DNSName)
    if not valid_names:
        return f"certificate is not valid for any names, but wanted to match {name}"
    return f"certificate is valid for {', '.join(valid_names)}, not {name}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
