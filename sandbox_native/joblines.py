"""A file of jobs, one JSON object a line: read as it is needed, each line a job with its id, or what is wrong with it.

Called by clibatch.py; reads the files that a job names as well, nothing else. A job has the fields of options.Job by the same
names, and `id`, any JSON value that no other line has. `limits` are an object, over the batch's; data (`stdin`, the values of
`files`) is a string or `{"text": …}` (its UTF-8), `{"base64": …}`, or `{"path": …}` for a file of the host.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, BinaryIO, Final, NoReturn

from sandbox_native.environment import HIDDEN
from sandbox_native.errors import PolicyError
from sandbox_native.limits import Limits, Overflow
from sandbox_native.options import Job

LONGEST: Final = 128 << 20  # bytes of a line
_CHUNK: Final = 1 << 20
_BOM: Final = "\ufeff"
_DATA: Final = 'give a string, {"text": …}, {"base64": …} or {"path": …}'


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """What jobs have that do not say otherwise."""

    limits: Limits
    env: Mapping[str, str]
    secrets: Mapping[str, str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """`job`, or why there is none. `key` stands for the id: None when the line has none."""

    number: int
    size: int
    id: Any = None
    key: bytes | None = None
    job: Job | PolicyError


def key_of(value: Any) -> bytes:
    """16 bytes that stand for a JSON value: 1, 1.0, "1" and true are four. ValueError: JSON cannot hold it (1e999);
    RecursionError: it is nested too deeply."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True, allow_nan=False).encode(), digest_size=16).digest()


def read(source: BinaryIO, defaults: Defaults) -> Iterator[Line]:
    """Every line but the blank ones. Holds one of them."""
    for number, raw in enumerate(iter(lambda: source.readline(LONGEST + 1), b""), 1):
        size = len(raw)
        if size > LONGEST and not raw.endswith(b"\n"):
            size += _skip_line(source)
            wrong = PolicyError(f"a line of more than {LONGEST} bytes", remedy='pass data by {"path": …}')
            yield Line(number=number, size=size, job=wrong)
        elif not raw.isspace():
            yield _line(number, raw, defaults)


def _skip_line(source: BinaryIO) -> int:
    size = 0
    while chunk := source.readline(_CHUNK):
        size += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return size


def _line(number: int, raw: bytes, defaults: Defaults) -> Line:
    id, key = None, None
    try:
        told = _parsed(raw, number)
        if "id" not in told:
            raise PolicyError("has no id", field="job", value=sorted(told), remedy='give it "id", any value of its own')
        try:
            id, key = told["id"], key_of(told["id"])
        except (ValueError, RecursionError) as error:
            raise PolicyError(f"no id: {error}", field="id", value=told["id"], remedy="give a string or a number") from None
        job: Job | PolicyError = _job({name: value for name, value in told.items() if name != "id"}, defaults)
    except PolicyError as error:
        job = error
    return Line(number=number, size=len(raw), id=id if key else None, key=key, job=job)


def _parsed(raw: bytes, number: int) -> dict[str, Any]:
    try:
        text = raw.decode()
        told = json.loads(text.removeprefix(_BOM) if number == 1 else text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # ValueError: also what is no UTF-8, and integers of thousands of digits
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise PolicyError(f"no JSON: {reason}", remedy="write one object a line") from None  # what it is may hold a secret
    if not isinstance(told, dict):
        raise PolicyError("not an object", field="line", value=told, remedy='write {"id": …, "argv": [program, …], …}')
    return told


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(pairs)
    if len(told) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"{name!r} is there twice")
            seen.add(name)
    return told


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# ---- a job's fields


def _job(told: dict[str, Any], defaults: Defaults) -> Job:
    for name in told:
        if name not in _READ:
            raise PolicyError("no such field", field=name, value=HIDDEN, remedy=f"a job has: id, {', '.join(sorted(_READ))}")
    made = {name: _READ[name](name, value) for name, value in told.items() if value is not None}
    made["limits"] = _over(defaults.limits, made.get("limits") or {})
    made["env"] = {**defaults.env, **(made.get("env") or {})} or None
    made["secrets"] = {**(defaults.secrets or {}), **(made.get("secrets") or {})} or None
    return Job.of(made)


def _over(limits: Limits, asked: Mapping[str, Any]) -> Limits:
    known = sorted(one.name for one in fields(Limits))
    for name in asked:
        if name not in known:
            raise PolicyError("no such limit", field=f"limits.{name}", value=asked[name], remedy=f"there are {', '.join(known)}")
    if "on_overflow" not in asked:
        return replace(limits, **asked)
    ways = {one.value: one for one in Overflow}
    way = asked["on_overflow"]
    if not isinstance(way, str) or way not in ways:
        raise PolicyError("no such way", field="limits.on_overflow", value=way, remedy=f"give {' or '.join(map(repr, ways))}")
    return replace(limits, **{**asked, "on_overflow": ways[way]})


def _texts(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise PolicyError("not a list of strings", field=name, value=value, remedy='give ["…", …]')
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise PolicyError("not a string", field=name, value=value, remedy="put it into quotes")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise PolicyError("not a boolean", field=name, value=value, remedy="write true or false")
    return value


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError("not an object", field=name, value=value, remedy='give {"name": value, …}')
    return value


def _variables(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise PolicyError("not an object of strings", field=name, value=HIDDEN, remedy='give {"NAME": "value", …}')
    return value


def _host_path(name: str, value: object) -> str:
    path = _text(name, value)
    return path if not path or path.startswith(("/", "~")) else os.path.join(os.getcwd(), path)


def _stdin(name: str, value: object) -> bytes | str:
    if isinstance(value, dict) and list(value) == ["path"]:
        return _host_path(f"{name}.path", value["path"])  # read as the guest reads
    return _data(name, value)


def _files(name: str, value: object) -> dict[str, bytes]:
    return {key: _data(f"{name}[{key!r}]", data) for key, data in _object(name, value).items()}


def _data(name: str, value: object) -> bytes:
    kind, text = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("text", value)
    if kind not in ("text", "base64", "path") or not isinstance(text, str):
        raise PolicyError("no data", field=name, value=value, remedy=_DATA)
    try:
        if kind == "base64":
            return base64.b64decode(text, validate=True)
        if kind == "text":
            return text.encode()
        with open(_host_path(name, text), "rb") as file:
            return file.read()
    except (binascii.Error, UnicodeEncodeError) as error:
        raise PolicyError(f"no {kind}: {error}", field=name, value=text, remedy=_DATA) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise PolicyError(reason, field=f"{name}.path", value=text, remedy="name a file that the host can read") from None


_READ: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "argv": _texts,
    "stdin": _stdin,
    "limits": _object,
    "env": _variables,
    "secrets": _variables,
    "cwd": _text,
    "workspace": _host_path,
    "files": _files,
    "collect": _texts,
    "merge_stderr": _flag,
    "commit": _flag,
}
