"""A file of results: gone on with, written in whole lines, and no other file is harmed."""

from __future__ import annotations

import errno
import json
import os
import resource
from pathlib import Path
from typing import Any

import boxes
import pytest

from sandbox_native import PolicyError, SandboxError
from sandbox_native.joblines import key_of
from sandbox_native.resultlines import ResultFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results"


def result(line: int, **more: Any) -> dict[str, Any]:
    return {"line": line, "id": line, "status": "ok", **more}


def error(line: int, message: str = "x") -> dict[str, Any]:
    return {"line": line, "id": line, "error": {"message": message}}


def write(path: Path, *told: dict[str, Any]) -> None:
    with ResultFile(str(path)) as file:
        for one in told:
            file.write(one)


def finished(path: Path) -> set[bytes]:
    with ResultFile(str(path)) as file:
        return file.finished


def test_what_was_written_is_finished_but_for_errors_and_what_we_ended(path: Path) -> None:
    write(path, result(1), error(2), result(3, status="cancelled"), {"line": 4, "error": {}}, result(5, status="wall_limit"))
    assert finished(path) == {key_of(1), key_of(5)}
    assert [json.loads(line)["line"] for line in path.read_bytes().splitlines()] == [1, 2, 3, 4, 5]


def test_an_error_that_is_there_is_not_written_again(path: Path) -> None:
    write(path, error(1), error(1), error(1, "y"))
    write(path, error(1), error(2))
    assert [json.loads(line)["line"] for line in path.read_bytes().splitlines()] == [1, 1, 2]


def test_a_torn_last_line_is_taken_away(path: Path) -> None:
    write(path, result(1), result(2))
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for size in range(second, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert finished(path) == {key_of(1)} and path.read_bytes() == whole[:second]
    path.write_bytes(whole[:-1])  # only its end is missing: it is whole
    assert finished(path) == {key_of(1), key_of(2)} and path.read_bytes() == whole


def test_a_file_of_somebody_elses_is_refused_and_not_touched(path: Path) -> None:
    for text in (b"hello", b"hello\n", b'{"line": 1}\nhello\n', b'{"line": 1}\nhello', b"[1]\n", b'{"id": 1}\n', b"\n"):
        path.write_bytes(text)
        with pytest.raises(PolicyError, match="is no result"):
            ResultFile(str(path))
        assert path.read_bytes() == text


def test_one_process_at_a_time_has_it(path: Path) -> None:
    with ResultFile(str(path)), pytest.raises(PolicyError, match="another batch"):
        ResultFile(str(path))
    ResultFile(str(path)).close()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "dir", tmp_path / "fifo", "/dev/null", "/no/such/dir/x", "\0"):
        with pytest.raises(PolicyError, match="--results"):
            ResultFile(str(name))


def test_on_a_full_disk_no_part_of_a_line_stays(path: Path) -> None:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
        with ResultFile(str(path)) as file:
            file.write(result(1))
            with pytest.raises(SandboxError, match=errno.errorcode[errno.EFBIG]):
                file.write(result(2, stdout="x" * 1000))
            file.write(result(3))

    boxes.in_a_host(work)
    assert [json.loads(line)["line"] for line in path.read_bytes().splitlines()] == [1, 3]


def test_results_of_any_size_are_whole(path: Path) -> None:
    write(path, result(1, stdout="x" * (5 << 20)), result(2))
    assert finished(path) == {key_of(1), key_of(2)}


def test_what_somebody_else_appends_is_left_alone(path: Path) -> None:
    with ResultFile(str(path)) as file:
        file.write(result(1))
        with open(path, "a", encoding="ascii") as other:
            other.write('{"line": 7, "id": 7, "status": "ok"}\n')
        file.write(result(2))
    assert finished(path) == {key_of(1), key_of(2), key_of(7)}


def test_an_id_that_json_cannot_hold_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text('{"line": 1, "id": NaN}\n')
    with pytest.raises(PolicyError, match="line 1 is no result: no id"):
        ResultFile(str(path))
