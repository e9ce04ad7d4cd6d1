"""A script on its way into a box: under which name it gets there, and how. Pure, but for reading the file that a path names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import PolicyError
from sandbox_native.request import Argument, Body, Encoder

Code = str | bytes | os.PathLike[str]
"""Text of a script, or the path of a file with it on the host."""

_NAME: Final = "main.py"
_ELSEWHERE: Final = "/tmp"  # where a host directory is the workspace


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    text: bytes

    @classmethod
    def of(cls, code: Code) -> Script:
        if isinstance(code, str):
            return cls(_NAME, code.encode("utf-8", "surrogateescape"))
        if isinstance(code, bytes):
            return cls(_NAME, code)
        if not isinstance(code, os.PathLike):
            raise PolicyError("no script", field="code", value=code, remedy="give its text, or a pathlib.Path")
        try:
            with open(code, "rb") as file:
                return cls(os.path.basename(os.fspath(code)), file.read())
        except OSError as error:
            remedy = "give the path of a script on the host, or its text as a str"
            raise PolicyError(f"cannot be read: {error.strerror}", field="code", value=os.fspath(code), remedy=remedy) from error

    def placed(self, options: Mapping[str, Any]) -> tuple[Argument, dict[str, Any]]:
        """Its path in the box, and the options of the run that puts it there: in a private workspace as one of its files."""
        if options.get("workspace") is not None:
            if b"\0" in self.text:
                raise PolicyError("holds a NUL byte", field="code", value=self.name, remedy="no Python script can")
            return Carried(f"{_ELSEWHERE}/{self.name}", self.text), dict(options)
        files = options.get("files") or {}
        if self.name in files:
            remedy = "give the file another name, or the script as a path of another name"
            raise PolicyError("is the script's own name", field="files", value=self.name, remedy=remedy)
        return f"{WORKSPACE}/{self.name}", {**options, "files": {**files, self.name: self.text}}


class Carried(str):
    """A path in the box, whose file the guest itself makes of a text that comes with the request."""

    __slots__ = ("text",)

    def __new__(cls, path: str, text: bytes) -> Carried:
        made = super().__new__(cls, path)
        made.text = text
        return made

    text: bytes


class CloneEncoder(Encoder):
    """Bodies for clones: argv[0] is a script, and there is no program to look for."""

    def body(
        self,
        argv: Any,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        secrets: Mapping[str, str] | None = None,
        workspace: str | None = None,
    ) -> Body:
        body = super().body(argv, env, cwd, files, secrets, workspace)
        if not isinstance(argv[0], Carried):
            return body
        # An entry of the environment without a name: bootstrap.py writes the file.
        return replace(body, data=body.data + b"=" + argv[0].text + b"\0", envc=body.envc + 1)
