"""Imports aiohttp without loading the system's CA certificates, which takes 40 ms at import time.

No client relies on aiohttp's default trust store: each passes an ssl context. Import this module before aiohttp.
"""

import os

_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_kept = {name: os.environ.get(name) for name in _PLACES}
os.environ.update(dict.fromkeys(_PLACES, os.devnull))
try:
    import aiohttp
finally:
    for _name, _value in _kept.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value

__all__ = ["aiohttp"]
