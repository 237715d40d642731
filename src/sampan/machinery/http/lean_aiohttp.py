"""Imports aiohttp without loading the system's CA certificates, which takes 40 ms at import time.

aiohttp creates its default TLS context when it is imported. The context that it gets here loads the certificates when
it is first used, and verifies servers as aiohttp's own does. Import this module before aiohttp.
"""

import ssl
from typing import Any

_load_default_certs = ssl.SSLContext.load_default_certs


class _DeferredTrustStore(ssl.SSLContext):
    """A context that loads the system's CA certificates when it is first used, and then becomes a plain SSLContext."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        self._load()
        return self.wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        self._load()
        return self.wrap_socket(*arguments, **options)

    def cert_store_stats(self) -> dict[str, int]:
        self._load()
        return self.cert_store_stats()

    def get_ca_certs(self, *arguments: Any, **options: Any) -> Any:
        self._load()
        return self.get_ca_certs(*arguments, **options)

    def _load(self) -> None:
        """Load the certificates. The class changes last, so that another thread does not use an empty trust store."""
        _load_default_certs(self)
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]  # `wrap_bio` and others are the plain ones from here


def _defer(context: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
    if type(context) is ssl.SSLContext and purpose == ssl.Purpose.SERVER_AUTH:
        context.__class__ = _DeferredTrustStore
    else:
        _load_default_certs(context, purpose)


ssl.SSLContext.load_default_certs = _defer  # type: ignore[method-assign, assignment]
try:
    import aiohttp
finally:
    ssl.SSLContext.load_default_certs = _load_default_certs  # type: ignore[method-assign]

__all__ = ["aiohttp"]
