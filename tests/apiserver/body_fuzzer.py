"""A program that reads bodies of atheris' making until it is told to stop: `python -m tests.apiserver.body_fuzzer`.

The first byte chooses the form, the rest is the body. A body that raises anything but an API error, or takes more than
its share of CPU time, is written to a file `crash-…`, and the program ends.
"""

import sys

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

with atheris.instrument_imports(
    include=["sampan.api.codec", "sampan.apiserver.request.bodies", "sampan.apiserver.request.server_side_apply"]
):
    from tests.apiserver import body_fuzzing as fuzzing

FORMS = (fuzzing.JSON, fuzzing.YAML, fuzzing.PROTOBUF)


def read_one(data: bytes) -> None:
    if not data:
        return
    media, body = FORMS[data[0] % len(FORMS)], data[1:]
    fuzzing.read(body, media)
    if fuzzing.longest_cpu_s(body, media) > fuzzing.MOST_CPU_S:
        assert min(fuzzing.longest_cpu_s(body, media) for _ in range(3)) < fuzzing.MOST_CPU_S


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_one)
    atheris.Fuzz()
