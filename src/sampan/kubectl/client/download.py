"""Files at URLs."""

from __future__ import annotations

from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.documents import decode_text
from sampan.kubectl.errors import KubectlError

_ATTEMPTS = 3
_MAX_BYTES = 64 << 20


def download(url: str, *, attempts: int = _ATTEMPTS) -> str:
    """Return the text at a URL. Raise KubectlError."""
    import http.client
    import time
    import urllib.error
    import urllib.request

    problem = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(1)
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                data = response.read(_MAX_BYTES + 1)
                if len(data) > _MAX_BYTES:
                    raise KubectlError(f"unable to read URL {quote_text(url)}: it has more than 64 MiB")
                return decode_text(data)
        except urllib.error.HTTPError as error:
            status = f"{error.code} {error.reason}"
            problem = f"unable to read URL {quote_text(url)}, server reported {status}, status code={error.code}"
            if error.code < 500:
                break
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _download_failure(url, getattr(error, "reason", error)) from None
    raise KubectlError(problem)


def _download_failure(url: str, reason: object) -> KubectlError:
    from urllib.parse import urlsplit

    from sampan.kubectl.client.session import connection_failure

    parts = urlsplit(url)
    if not parts.netloc:
        reason = OSError("http: no Host in request URL")
    failure = reason if isinstance(reason, Exception) else OSError(str(reason))
    return connection_failure(failure, f"Get {quote_text(url)}", parts)
