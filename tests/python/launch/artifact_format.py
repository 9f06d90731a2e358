"""The bytes of artifacts, written by what the product's headers say: structs with their members in order, their types and defaults.

src/artifact/serialize.cpp writes the members of a struct in turn, the length of a list in front of it, little endian.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parents[3] / "src"
HEADERS = ("support/scalar_type.h", "layout/tensor_layout.h", "artifact/artifact.h")
_PLAIN = {"bool": "?", "uint8_t": "B", "uint16_t": "H", "uint32_t": "I", "uint64_t": "Q", "int32_t": "i", "int64_t": "q"}


class Member(NamedTuple):
    """A member of a struct: `default` is a word of C++, empty when there is none."""

    name: str
    type: str
    default: str


class Format:
    """The structs and enumerations of the headers, by their names without namespaces."""

    def __init__(self) -> None:
        self.structs: dict[str, list[Member]] = {}
        self.enums: dict[str, list[str]] = {}
        for header in HEADERS:
            text = re.sub(r"//.*|^#.*", "", (SOURCE / header).read_text(), flags=re.MULTILINE)
            self._read(re.findall(r"\w+(?:::\w+)*|std::vector<[^;=]*>|\S", re.sub(r"std::vector<([\w:]+)>", r"\1[]", text)), "")

    def _read(self, tokens: list[str], scope: str) -> None:
        """What stands between the braces of a namespace, or of the struct `scope`."""
        while tokens:
            if tokens[0] == "namespace":
                self._read(_take_block(tokens), scope)
            elif tokens[0] == "struct" and tokens[2] == "{":
                name = scope + tokens[1]
                self.structs[name] = []
                self._read(_take_block(tokens), f"{name}::")
            elif tokens[:2] == ["enum", "class"]:
                name = scope + tokens[2]
                self.enums[name] = [word for word in _take_block(tokens) if word != ","]
            else:
                statement = _take_statement(tokens)
                if scope and statement and "(" not in statement and statement[0] not in ("static", "inline", "using"):
                    self.structs[scope[:-2]] += _read_members(statement)

    def pack(self, kind: str, value: Any, scope: str = "") -> bytes:
        """The bytes of a value: a dict for a struct, in which defaults may be left out, a list, a text, a number or the name of one."""
        if kind.endswith("[]"):
            item = kind[:-2]
            items = bytes(value) if item == "uint8_t" else b"".join(self.pack(item, one, scope) for one in value)
            return struct.pack("<Q", len(value)) + items
        if kind == "std::string":
            return struct.pack("<Q", len(value.encode())) + value.encode()
        if kind in _PLAIN:
            return struct.pack("<" + _PLAIN[kind], value)
        name = self._resolve(kind, scope)
        if name in self.enums:
            return struct.pack("<B", self.enums[name].index(value) if isinstance(value, str) else value)
        unknown = value.keys() - {member.name for member in self.structs[name]}
        assert not unknown, f"{name} has no members {unknown}"
        return b"".join(self.pack(one.type, value.get(one.name, self._make_default(one, name)), name) for one in self.structs[name])

    def _resolve(self, kind: str, scope: str) -> str:
        """The full name of a type that is named inside of a struct."""
        plain = re.sub(r"^(support|layout|artifact)::", "", kind)
        parts = scope.split("::") if scope else []
        candidates = ["::".join([*parts[:depth], plain]) for depth in range(len(parts), -1, -1)]
        return next(name for name in candidates if name in self.structs or name in self.enums)

    def _make_default(self, member: Member, scope: str) -> Any:
        word = member.default
        if member.type.endswith("[]"):
            return []
        if member.type == "std::string":
            return ""
        if word in ("true", "false"):
            return word == "true"
        if member.type in _PLAIN:
            return int(word or 0)
        name = self._resolve(member.type, scope)
        return {} if name in self.structs else word.rsplit("::", 1)[-1] if word else 0


def _take_block(tokens: list[str]) -> list[str]:
    """Removes a definition up to its closing brace, and gives what stands between the braces."""
    start = tokens.index("{")
    depth, end = 1, start
    while depth:
        end += 1
        depth += (tokens[end] == "{") - (tokens[end] == "}")
    inside = tokens[start + 1 : end]
    del tokens[: end + 1 + (tokens[end + 1 : end + 2] == [";"])]
    return inside


def _take_statement(tokens: list[str]) -> list[str]:
    """Removes a statement, or a function with its body, and gives the words before the body."""
    end = next((at for at, token in enumerate(tokens) if token in (";", "{")), len(tokens) - 1)
    statement = tokens[:end]
    if tokens[end] == "{":
        _take_block(tokens)
    else:
        del tokens[: end + 1]
    return statement


def _read_members(statement: list[str]) -> list[Member]:
    """`int64_t a = 1, b` as two members."""
    kind, rest = statement[0], statement[1:]
    while rest[:2] == ["[", "]"]:
        kind, rest = kind + "[]", rest[2:]
    declared = [part.split("=") for part in "".join(rest).split(",")]
    return [Member(name, kind, default[0] if default else "") for name, *default in declared]


FORMAT = Format()


def serialize(artifact: dict[str, Any]) -> bytes:
    """The bytes of an artifact: its members by name."""
    text = (SOURCE / "artifact" / "serialize.cpp").read_text()
    magic, version = (re.search(rf"{name} = (\w+);", text)[1] for name in ("kMagic", "kVersion"))  # type: ignore[index]
    return struct.pack("<II", int(magic, 0), int(version)) + FORMAT.pack("Artifact", artifact)
