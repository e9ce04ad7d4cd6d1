"""What a judge has done so far, a judgement a line, so that it can go on from there. Host process; used by the judge's command.

A line is `Judgement.to_dict()` behind `line` and `id`, and anything else is refused: it would be told as it stands.
resultlines.py keeps lines whole. What counts as the same work: the submission's name and files, its entry point, what is expected
of it, the files of the package, the options and the language. A JE is no result: it is tried again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from sandbox_native.errors import PolicyError
from sandbox_native.joblines import key_of
from sandbox_native.judge.as_json import plain, unlike
from sandbox_native.judge.handed_in import contents
from sandbox_native.judge.outcomes import VERSION, Judgement
from sandbox_native.judge.setup import Options
from sandbox_native.judge.values import Problem, ProgramSource, Submission
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.resultlines import ResultFile

Told = Mapping[str, Any]
"""A judgement as of `Judgement.to_dict`."""

_ID: Final = frozenset({"submission", "source", "problem"})
_ADDED: Final = frozenset({"version", "partial", "slowest"})  # by Judgement.to_dict
_CHUNK: Final = 1 << 20


class Journal:
    """A context manager; one process at a time has the file. Errors as of ResultFile."""

    def __init__(self, path: str, problem: Problem, options: Options) -> None:
        self._kept: dict[bytes, Told] = {}
        self._options = options
        self._problem = problem_digest(problem, options)
        self._lines = 0
        self._file = ResultFile(path, field="--resume", on_finished=self._note, check=_no_judgement)

    def _note(self, line: dict[str, Any]) -> None:
        self._lines += 1
        told = {name: value for name, value in line.items() if name not in ("line", "id")}
        self._kept[key_of(line["id"])] = told

    def id_of(self, source: ProgramSource) -> dict[str, str]:
        """What stands for the judging of a submission. PolicyError when a file of it cannot be read or is none."""
        return {
            "submission": source.name,
            "source": source_digest(source, self._options),
            "problem": self._problem,
        }

    def earlier(self, id: Mapping[str, str]) -> Told | None:
        """The judgement that is there already."""
        return self._kept.get(key_of(id))

    def write(self, id: Mapping[str, str], told: Told) -> None:
        """The whole line, or `SandboxError`."""
        self._lines += 1
        failed = {"error": {"message": told["message"]}} if told["verdict"] == Verdict.JE else {}
        self._file.write({"line": self._lines, "id": dict(id), **failed, **told})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def _no_judgement(line: Mapping[str, Any]) -> str:
    """Why a line is not one of these; empty when it is."""
    if line.get("version") != VERSION:
        return f"it has the version {line.get('version')!r}, and not {VERSION}"
    id = line.get("id")
    if not isinstance(id, dict) or id.keys() != _ID or not all(isinstance(part, str) for part in id.values()):
        return "it has no id of a judgement"
    missing = _ADDED - line.keys()
    if missing:
        return f"{', '.join(sorted(missing))}: missing"
    others = _ADDED | {"line", "id", *(("error",) if line.get("verdict") == Verdict.JE else ())}
    return unlike({name: value for name, value in line.items() if name not in others}, Judgement)


def source_digest(source: ProgramSource, options: Options) -> str:
    """Of a program's files, its language and what is expected of it. PolicyError when a file cannot be read, or is none."""
    digest = hashlib.blake2b(digest_size=16)
    for name, data in sorted(contents(source).items()):
        _add(digest, name.encode("utf-8", "surrogateescape"))
        _add(digest, hashlib.blake2b(data, digest_size=16).digest())
    try:
        _add(digest, repr(options.languages.of(source)).encode())
    except PolicyError:  # its judgement says so
        _add(digest, b"")
    _add(digest, (source.entry_point or "").encode("utf-8", "surrogateescape"))
    expected = source.expected if isinstance(source, Submission) else None
    _add(digest, json.dumps(plain(expected)).encode())  # whose sets have no order of their own
    return digest.hexdigest()


def problem_digest(problem: Problem, options: Options) -> str:
    """Of how a problem is judged: its value, the sizes and times of its files, and the options that change judgements."""
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, repr((problem.name, problem.data, problem.limits, problem.checker, problem.grader, problem.include)).encode())
    _add(digest, repr((options.cpu_seconds, options.rerun_near, options.run_all)).encode())
    for path in sorted(_files(problem.root)) if problem.root is not None else ():
        found = path.stat()
        _add(digest, f"{path} {found.st_size} {found.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(root):
        if Path(directory) == root and "submissions" in names:
            names.remove("submissions")  # each has a digest of its own
        yield from (place for name in files if (place := Path(directory, name)).is_file())


def _add(digest: hashlib.blake2b, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "little") + part)
