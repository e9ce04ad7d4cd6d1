"""Plain values as bytes, between two boxes of which one is hostile: a strict codec with bounds. Pure; in both boxes.

What crosses: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, nested at most `DEPTH` deep. An
instance of a class derived from one of them crosses as the plain value that it holds, whatever methods it has. A list, dict
or set that comes up twice is one object on the other side too, also in a cycle. Reading makes values of these types only, so
no code of the other side can come with them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

DEPTH = 100
_SIZE = struct.Struct("<I")
_REAL = struct.Struct("<d")
_PAIR = struct.Struct("<dd")


class NotPlain(Exception):
    """A value that does not cross; the text says why. `value`: that of a type that never does, None where there is too much."""

    value: object = None


class Malformed(Exception):
    """Bytes that are no value."""


# ---- writing ----


class Encoder:
    """Values one after the other, in `data`. `known`: lists, dicts and sets that the other side has, by number."""

    def __init__(self, most: int, known: Sequence[object] = ()) -> None:
        self.data, self.objects = bytearray(), list(known)
        self._most, self._depth = most, 0
        self._numbers = {id(thing): number for number, thing in enumerate(self.objects)}

    def put(self, value: Any) -> None:
        """NotPlain for what does not cross; then `data` is of no use."""
        if len(self.data) > self._most:
            raise NotPlain(f"more than {self._most} bytes of values")
        write = _WRITERS.get(type(value)) or _writer(value)
        if write is None:
            error = NotPlain(f"a value of type {type(value).__name__!r}: only plain values cross")
            error.value = value
            raise error
        write(self, value)

    def number(self, value: int) -> None:
        self.data += _SIZE.pack(value)

    def content(self, thing: Any) -> None:
        """What is in a list, dict or set, without its identity."""
        if isinstance(thing, dict):
            self._many(b"d", dict.__len__(thing), (part for item in dict.items(thing) for part in item))
        elif isinstance(thing, list):
            self._many(b"l", list.__len__(thing), list.__iter__(thing))
        else:
            self._many(b"S", set.__len__(thing), set.__iter__(thing))

    def shared(self, thing: Any) -> None:
        number = self._numbers.get(id(thing))
        if number is not None:
            self.data += b"@"
            self.number(number)
            return
        self._numbers[id(thing)] = len(self.objects)
        self.objects.append(thing)
        self.content(thing)

    def sized(self, tag: bytes, data: bytes) -> None:
        if len(data) > self._most:
            raise NotPlain(f"more than {self._most} bytes of values")
        self.data += tag
        self.number(len(data))
        self.data += data

    def _many(self, tag: bytes, count: int, parts: Any) -> None:
        self._depth += 1
        if self._depth > DEPTH:
            raise NotPlain(f"values nested more than {DEPTH} deep")
        self.data += tag
        self.number(count)
        for part in parts:
            self.put(part)
        self._depth -= 1

    def sequence(self, tag: bytes, count: int, parts: Any) -> None:
        self._many(tag, count, parts)


def packed(value: Any, most: int) -> bytes:
    """One value by itself. NotPlain as of `Encoder.put`."""
    encoder = Encoder(most)
    encoder.put(value)
    return bytes(encoder.data)


def _int_bytes(value: int) -> bytes:
    value = int.__index__(value)
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _put_constant(tag: bytes) -> Callable[[Encoder, Any], None]:
    def put(encoder: Encoder, value: Any) -> None:
        encoder.data += tag

    return put


def _put_bool(encoder: Encoder, value: bool) -> None:
    encoder.data += b"T" if value else b"F"


def _put_float(encoder: Encoder, value: float) -> None:
    encoder.data += b"f" + _REAL.pack(float.__pos__(value))


def _put_complex(encoder: Encoder, value: complex) -> None:
    value = complex.__pos__(value)
    encoder.data += b"c" + _PAIR.pack(value.real, value.imag)


_WRITERS: dict[type, Callable[[Encoder, Any], None]] = {
    type(None): _put_constant(b"N"),
    bool: _put_bool,
    int: lambda encoder, value: encoder.sized(b"i", _int_bytes(value)),
    float: _put_float,
    complex: _put_complex,
    str: lambda encoder, value: encoder.sized(b"s", str.encode(value, "utf-8", "surrogatepass")),
    bytes: lambda encoder, value: encoder.sized(b"b", bytes.join(b"", (value,))),
    list: Encoder.shared,
    dict: Encoder.shared,
    set: Encoder.shared,
    tuple: lambda encoder, value: encoder.sequence(b"t", tuple.__len__(value), tuple.__iter__(value)),
    frozenset: lambda encoder, value: encoder.sequence(b"Z", frozenset.__len__(value), frozenset.__iter__(value)),
}


def _writer(value: object) -> Any:
    """Of a class derived from a plain one."""
    return next((write for kind, write in _WRITERS.items() if kind in type(value).__mro__), None)


# ---- reading ----


class Decoder:
    """Reads values one after the other. Malformed for whatever Encoder would not write."""

    def __init__(self, data: bytes, at: int = 0, known: Sequence[Any] = ()) -> None:
        self.objects: list[Any] = list(known)
        self._data, self._at, self._depth = data, at, 0

    @property
    def done(self) -> bool:
        return self._at == len(self._data)

    def take(self) -> Any:
        tag = self.part(1)
        read = _READERS.get(tag)
        if read is None:
            raise Malformed(f"unknown tag {tag!r}")
        return read(self)

    def part(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise Malformed("cut short")
        self._at += size
        return data

    def number(self) -> int:
        value: int = _SIZE.unpack(self.part(4))[0]
        return value

    def sized(self) -> bytes:
        return self.part(self.number())

    def text(self) -> str:
        """A value that has to be a str."""
        value = self.take()
        if type(value) is not str:
            raise Malformed("not a text")
        return value

    def fill(self, thing: Any) -> Any:
        """Reads the content of a list, dict or set into it; its tag has been read."""
        kind = type(thing)
        parts = self.parts(2 if kind is dict else 1)
        try:
            if kind is dict:
                for at in range(0, len(parts), 2):
                    thing[parts[at]] = parts[at + 1]
            elif kind is list:
                thing.extend(parts)
            else:
                thing.update(parts)
        except TypeError as error:
            raise Malformed(str(error)) from None
        return thing

    def parts(self, each: int = 1) -> list[Any]:
        count = self.number() * each
        if count > len(self._data) - self._at:  # each takes a byte at least
            raise Malformed("cut short")
        self._depth += 1
        if self._depth > DEPTH:
            raise Malformed(f"nested more than {DEPTH} deep")
        parts = [self.take() for _ in range(count)]
        self._depth -= 1
        return parts

    def shared(self, thing: Any) -> Any:
        self.objects.append(thing)
        return self.fill(thing)

    def again(self) -> Any:
        number = self.number()
        if number >= len(self.objects):
            raise Malformed("an object that is not there")
        return self.objects[number]


def _take_text(decoder: Decoder) -> str:
    try:
        return decoder.sized().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from None


def _take_frozenset(decoder: Decoder) -> Any:
    try:
        return frozenset(decoder.parts())
    except TypeError as error:
        raise Malformed(str(error)) from None


_READERS: dict[bytes, Callable[[Decoder], Any]] = {
    b"N": lambda decoder: None,
    b"T": lambda decoder: True,
    b"F": lambda decoder: False,
    b"i": lambda decoder: int.from_bytes(decoder.sized(), "little", signed=True),
    b"f": lambda decoder: _REAL.unpack(decoder.part(8))[0],
    b"c": lambda decoder: complex(*_PAIR.unpack(decoder.part(16))),
    b"s": _take_text,
    b"b": lambda decoder: decoder.sized(),
    b"l": lambda decoder: decoder.shared([]),
    b"d": lambda decoder: decoder.shared({}),
    b"S": lambda decoder: decoder.shared(set()),
    b"t": lambda decoder: tuple(decoder.parts()),
    b"Z": _take_frozenset,
    b"@": Decoder.again,
}


def unpacked(data: bytes) -> Any:
    """What `packed` made. Malformed for anything else."""
    decoder = Decoder(data)
    value = decoder.take()
    if not decoder.done:
        raise Malformed("more than one value")
    return value
