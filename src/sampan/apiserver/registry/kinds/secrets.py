"""Secret: confidential data for pods, with types that require certain keys."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from sampan.api.codec import careful, syntax
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import Secret
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.configmaps import FROZEN, MAX_DATA_BYTES, validate_data_keys
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.pki.certificate_parts import MalformedCertificateError, public_key_info
from sampan.machinery.pki.pem import CERTIFICATE, PRIVATE_KEY_SUFFIX, PemBlock, read_blocks


def find_key_pair_error(certificate: bytes, key: bytes) -> str:
    """Return why a certificate and a key are not a valid pair, in the words of Go's `tls.X509KeyPair`; "" if they
    are."""
    certificates = list(read_blocks(certificate))
    leaf = next((block for block in certificates if block.type == CERTIFICATE), None)
    if leaf is None:
        return _missing_certificate_error([block.type for block in certificates])
    keys = list(read_blocks(key))
    private = next((block for block in keys if block.type.endswith(PRIVATE_KEY_SUFFIX)), None)
    if private is None:
        return _missing_key_error([block.type for block in keys])
    return _mismatch(leaf, private)


def _missing_certificate_error(block_types: list[str]) -> str:
    if not block_types:
        return "tls: failed to find any PEM data in certificate input"
    if len(block_types) == 1 and block_types[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(block_types)}]"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}'


def _missing_key_error(block_types: list[str]) -> str:
    if not block_types:
        return "tls: failed to find any PEM data in key input"
    if block_types == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(block_types)}]"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}'


def _mismatch(certificate: PemBlock, key: PemBlock) -> str:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_der_public_key

    try:
        info = public_key_info(certificate.content)
    except MalformedCertificateError as error:
        return f"x509: malformed {error}"
    try:
        public = load_der_public_key(info)
    except (ValueError, UnsupportedAlgorithm):
        return "tls: unknown public key algorithm"
    try:
        # Like Go, this tries every encoding, whatever the PEM block is called. Checking that the primes are prime took
        # 0.29 s for 4096 bits, and takes longer for more. The check is skipped because the key is not used: only its
        # public half is compared.
        private = load_der_private_key(key.content, password=None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if isinstance(private, x25519.X25519PrivateKey):
        return "tls: found unknown private key type in PKCS#8 wrapping"
    if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return "tls: failed to parse private key"
    if not isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return "tls: unknown public key algorithm"
    other = private.public_key()
    if type(other) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if other == public else "tls: private key does not match public key"


FieldErrors = Iterator[FieldError]

_OPAQUE, _TLS = "Opaque", "kubernetes.io/tls"
_ACCOUNT = "kubernetes.io/service-account.name"
_HIDDEN = "<secret contents redacted>"


class SecretStrategy(Strategy):
    columns = (
        NAME,
        Column("Type", lambda secret, now: secret.type, field="type"),
        Column("Data", lambda secret, now: len(secret.data), field="data"),
        AGE,
    )

    def default(self, obj: Secret) -> None:
        if not obj.type:
            obj.type = _OPAQUE
        if obj.stringData:
            obj.data.update((key, text.encode()) for key, text in obj.stringData.items())
            obj.stringData = {}

    def validate_create(self, ctx: Context, obj: Secret) -> Iterable[FieldError]:
        return _validate_secret(obj)

    def validate_update(self, ctx: Context, obj: Secret, old: Secret) -> Iterable[FieldError]:
        if obj.type != old.type:
            yield FieldError.invalid("type", obj.type, "field is immutable")
        if old.immutable:
            if not obj.immutable:
                yield FieldError.forbidden("immutable", FROZEN)
            if obj.data != old.data:
                yield FieldError.forbidden("data", FROZEN)
        yield from _validate_secret(obj)

    def warnings(self, ctx: Context, obj: Secret, old: Secret | None) -> Iterable[str]:
        if obj.type == _TLS:
            message = find_key_pair_error(obj.data.get("tls.crt", b""), obj.data.get("tls.key", b""))
            return [message] if message else ()
        return ()


def _validate_secret(secret: Secret) -> FieldErrors:
    yield from validate_data_keys(sorted(secret.data), "data")
    if sum(map(len, secret.data.values())) > MAX_DATA_BYTES:
        yield FieldError.too_long("data", MAX_DATA_BYTES)
    check = _VALIDATORS.get(secret.type)
    if check is not None:
        yield from check(secret)


def _validate_token(secret: Secret) -> FieldErrors:
    if not secret.metadata.annotations.get(_ACCOUNT):
        yield FieldError.required(f"metadata.annotations[{_ACCOUNT}]")


def _validate_required_keys(secret: Secret, *keys: str) -> FieldErrors:
    for key in keys:
        if key not in secret.data:
            yield FieldError.required(f"data[{key}]")


def _validate_json(secret: Secret, key: str) -> FieldErrors:
    if key not in secret.data:
        yield FieldError.required(f"data[{key}]")
    elif message := _find_json_object_error(secret.data[key]):
        yield FieldError.invalid(f"data[{key}]", _HIDDEN, message)


def _find_json_object_error(text: bytes) -> str:
    """Return why the text is not a JSON object, "" if it is one."""
    try:
        value = msgspec.json.decode(text.decode("utf-8", "replace"))  # Go accepts what is not UTF-8
    except msgspec.DecodeError as error:
        return syntax.error_message(text) or str(error)
    except RecursionError:  # nested deeper than Python supports, but maybe not deeper than Go does
        if (message := syntax.error_message(text)) is not None:
            return message
        value = {} if text.lstrip().startswith(b"{") else []
    if value is None or isinstance(value, dict):
        return ""
    return f"json: cannot unmarshal {careful.kind(value)} into Go value of type map[string]interface {{}}"


def _validate_basic(secret: Secret) -> FieldErrors:
    if "username" not in secret.data and "password" not in secret.data:
        yield from _validate_required_keys(secret, "username", "password")


def _validate_ssh(secret: Secret) -> FieldErrors:
    if not secret.data.get("ssh-privatekey"):
        yield FieldError.required("data[ssh-privatekey]")


_VALIDATORS: dict[str, Callable[[Secret], FieldErrors]] = {
    "kubernetes.io/service-account-token": _validate_token,
    "kubernetes.io/dockercfg": lambda secret: _validate_json(secret, ".dockercfg"),
    "kubernetes.io/dockerconfigjson": lambda secret: _validate_json(secret, ".dockerconfigjson"),
    "kubernetes.io/basic-auth": _validate_basic,
    "kubernetes.io/ssh-auth": _validate_ssh,
    _TLS: lambda secret: _validate_required_keys(secret, "tls.crt", "tls.key"),
}

BEHAVIOR = ResourceBehavior(strategy=SecretStrategy())
