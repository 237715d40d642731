"""/debug/flightrecorder: the latest records as JSON lines, for `sampan trace` and for people."""

from __future__ import annotations

import msgspec

from sampan.api.integers import parse_int64
from sampan.apiserver.call import Call
from sampan.apiserver.results import Answer, BytesAnswer, no_such_path
from sampan.machinery import errors
from sampan.machinery.flight_recorder import FlightRecorder

PATH = "/debug/flightrecorder"


class Flight:
    def __init__(self, recorder: FlightRecorder) -> None:
        self._recorder = recorder

    async def handle(self, call: Call) -> Answer:
        if call.path.rstrip("/") != PATH:
            return no_such_path()
        if call.method != "GET":
            raise errors.generic(405)
        after = call.query.get("after")
        number = parse_int64(after or "0")
        if number is None or number < 0:
            raise errors.bad_request(f"after: {after!r} is not the number of a record")
        uid = call.query.get("uid")
        records = self._recorder.about(uid=uid) if uid else self._recorder.since(number)
        lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        return BytesAnswer(lines, "application/x-ndjson")
