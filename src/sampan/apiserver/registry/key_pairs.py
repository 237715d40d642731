"""Whether a certificate and a private key belong together. `cryptography` is imported on first use."""

from sampan.machinery.pem import CERTIFICATE, PRIVATE_KEY_SUFFIX, PemBlock, read_blocks


def find_key_pair_error(certificate: bytes, key: bytes) -> str:
    """Return what is wrong with the pair, in the words of Go's `tls.X509KeyPair`; "" if nothing is."""
    certificates = list(read_blocks(certificate))
    leaf = next((block for block in certificates if block.type == CERTIFICATE), None)
    if leaf is None:
        return _no_certificate([block.type for block in certificates])
    keys = list(read_blocks(key))
    private = next((block for block in keys if block.type.endswith(PRIVATE_KEY_SUFFIX)), None)
    if private is None:
        return _no_key([block.type for block in keys])
    return _mismatch(leaf, private)


def _no_certificate(block_types: list[str]) -> str:
    if not block_types:
        return "tls: failed to find any PEM data in certificate input"
    if len(block_types) == 1 and block_types[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(block_types)}]"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}'


def _no_key(block_types: list[str]) -> str:
    if not block_types:
        return "tls: failed to find any PEM data in key input"
    if block_types == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(block_types)}]"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}'


def _mismatch(certificate: PemBlock, key: PemBlock) -> str:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        public = x509.load_der_x509_certificate(certificate.content).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        # Checking that the primes are prime took 0.29 s for 4096 bits, and takes longer for more. The check is skipped
        # because the key is not used: only its public half is compared.
        private = load_pem_private_key(key.encode(), password=None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    other = private.public_key()
    if type(other) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if other == public else "tls: private key does not match public key"
