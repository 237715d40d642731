"""Whether a certificate and a private key belong together. `cryptography` loads when the first one is looked at."""

import re

_BLOCK = re.compile(rb"-----BEGIN ([^-\r\n]*)-----[\r\n]+.*?[\r\n]-----END \1-----", re.DOTALL)


def fault_of(certificate: bytes, key: bytes) -> str:
    """What is wrong with the pair, in the real server's words; empty if nothing is."""
    certificates = _blocks(certificate)
    if "CERTIFICATE" not in (kind for kind, _ in certificates):
        return _no_certificate([kind for kind, _ in certificates])
    keys = _blocks(key)
    if not any(kind.endswith("PRIVATE KEY") for kind, _ in keys):
        return _no_key([kind for kind, _ in keys])
    first = next(block for kind, block in certificates if kind == "CERTIFICATE")
    return _mismatch(first, next(block for kind, block in keys if kind.endswith("PRIVATE KEY")))


def _blocks(text: bytes) -> list[tuple[str, bytes]]:
    return [(match[1].decode("ascii", "replace"), match[0]) for match in _BLOCK.finditer(text)]


def _no_certificate(found: list[str]) -> str:
    if not found:
        return "tls: failed to find any PEM data in certificate input"
    if len(found) == 1 and found[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(found)}]"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}'


def _no_key(found: list[str]) -> str:
    if not found:
        return "tls: failed to find any PEM data in key input"
    if found == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(found)}]"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}'


def _mismatch(certificate: bytes, key: bytes) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
    except ValueError:
        return "x509: malformed certificate"
    try:
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError):
        return "tls: failed to parse private key"
    other = private.public_key()
    if type(other) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if other == public else "tls: private key does not match public key"
