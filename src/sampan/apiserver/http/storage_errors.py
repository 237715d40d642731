"""The translation of storage and watch cache errors to API errors."""

from sampan.apiserver.call import Call
from sampan.machinery import errors
from sampan.storage import backend
from sampan.storage.cacher import errors as cache


def translated(fault: Exception, call: Call) -> errors.ApiError | None:
    """Return the API error for an error of the storage or cache, None for any other exception."""
    match fault:
        case cache.Expired():
            answer = errors.expired(str(fault))
            if fault.continue_token:
                answer.status["metadata"] = {"continue": fault.continue_token}
            return answer
        case cache.TooLargeVersion():
            return errors.resource_version_too_large(fault.requested, fault.current, retry_after_s=fault.retry_after_s)
        case cache.InvalidVersion():
            return errors.bad_request(str(fault)) if call.verb == "list" else errors.unexpected(str(fault))
        case cache.InvalidContinue() | cache.UnsupportedField():
            return errors.bad_request(str(fault))
        case cache.NotReady() | cache.WatchClosed() | backend.Closed():
            return errors.service_unavailable(str(fault))
        case backend.Unavailable():
            return errors.timeout(str(fault)) if fault.may_have_happened else errors.service_unavailable(str(fault))
        case cache.CorruptValue():
            return errors.internal_error(str(fault))
        case backend.Compacted():
            return errors.expired("The resourceVersion for the provided list is too old.")
    return None
