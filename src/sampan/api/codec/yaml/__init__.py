"""YAML as the real server reads it and as kubectl prints it (its library reads YAML 1.1).

`decode` gives the JSON value of the first document and what strict decoding would refuse; `encode` writes a JSON value.
Nesting and the size of the value's JSON form are bounded here, the size of the text by the caller.
"""

from sampan.api.codec.yaml.nodes import YamlError, YamlTooLargeError
from sampan.api.codec.yaml.reader import Decoded, decode, strict_message
from sampan.api.codec.yaml.writer import encode

__all__ = ["Decoded", "YamlError", "YamlTooLargeError", "decode", "encode", "strict_message"]
