"""Lines of jobs: what is one, what is not and why, and that a file is read only as far as it is asked for."""

from __future__ import annotations

import base64
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_native import Limits, Overflow, PolicyError, joblines
from sandbox_native.joblines import Defaults, Line, key_of, read
from sandbox_native.options import Job

DEFAULTS = Defaults(limits=Limits(wall_seconds=7), env={"A": "1", "B": "1"}, secrets=None)
IDS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    -0.0,
    0.1,
    10**30,
    "",
    "1",
    "true",
    "ä",
    "\ud800",
    [],
    [1],
    [[1]],
    {},
    {"a": None},
]


def lines(text: str | bytes) -> list[Line]:
    return list(read(io.BytesIO(text.encode() if isinstance(text, str) else text), DEFAULTS))


def one(**fields: Any) -> Line:
    (line,) = lines(json.dumps({"id": 1, "argv": ["x"], **fields}))
    return line


def job(**fields: Any) -> Job:
    made = one(**fields).job
    assert isinstance(made, Job), made
    return made


def wrong(**fields: Any) -> str:
    error = one(**fields).job
    assert isinstance(error, PolicyError)
    return str(error)


def test_every_json_value_is_an_id_of_its_own() -> None:
    made = lines("\n".join(json.dumps({"id": id, "argv": ["x"]}) for id in IDS))
    assert [repr(line.id) for line in made] == [repr(id) for id in IDS] and all(isinstance(line.job, Job) for line in made)
    assert len({line.key for line in made}) == len(IDS)
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}), "an object has no order"


@pytest.mark.parametrize(
    "text", ['{"id": 1e999, "argv": ["x"]}', '{"id": NaN, "argv": ["x"]}', '{"id": [Infinity], "argv": ["x"]}']
)
def test_what_json_cannot_hold_is_no_id(text: str) -> None:
    (line,) = lines(text)
    assert isinstance(line.job, PolicyError) and line.key is None


NO_JOBS: list[tuple[bytes, str]] = [
    (b"no json", "no JSON"),
    (b'{"id": 1, "argv": ["x"]', "no JSON"),
    (b'{"id": 1, "id": 2, "argv": ["x"]}', "'id' is there twice"),
    (b'{"id": 1, "argv": ["\xff"]}', "no JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"id": ' + b"9" * 5000 + b"}", "no JSON"),
    (b'["echo", "hi"]', "not an object"),
    (b"7", "not an object"),
    (b'{"argv": ["x"]}', "has no id"),
    (b'{"id": 1}', "has no argv"),
]


def test_a_line_that_is_no_job_says_why_and_the_next_one_is_read() -> None:
    for text, words in NO_JOBS:
        error, good = lines(text + b'\n{"id": "good", "argv": ["x"]}')
        assert isinstance(error.job, PolicyError) and words in str(error.job)
        assert isinstance(good.job, Job) and (good.number, good.id) == (2, "good")


NO_FIELDS: dict[str, list[Any]] = {
    "argv": ["echo", 1, ["a", 1], {}],
    "stdin": [1, ["x"], {"base64": "?"}, {"text": 1}, {"hex": "00"}, {"text": "", "base64": ""}, {}],
    "files": [["x"], {"x": 1}, {"x": {"path": "/no/such/file"}}, {"x": {"path": "\0"}}, {"x": "\ud800"}],
    "env": ["A=1", {"A": 1}, [["A", "1"]]],
    "secrets": ["A=1", {"A": 1}],
    "collect": ["*", [1]],
    "cwd": [1, ["/"]],
    "workspace": [1, {}],
    "commit": [1, "true"],
    "merge_stderr": [0, ""],
    "limits": [1, [], {"wall": 1}, {"on_overflow": "stop"}, {"on_overflow": []}],
    "wall_seconds": [1],
    "stdout": [1],
}


def test_a_field_that_makes_no_sense_is_named() -> None:
    for field, values in NO_FIELDS.items():
        for value in values:
            assert field in wrong(**{field: value}), value
    for value in ("1", True, None, -1):
        assert "wall_seconds" in wrong(limits={"wall_seconds": value})


def test_a_name_that_is_there_twice_is_found_in_one_pass() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [Name(number) for number in (*range(1000), 999)]
    with pytest.raises(ValueError, match="'999' is there twice"):
        joblines._once([(name, None) for name in names])
    assert compared < 10 * len(names)


def test_a_secret_is_in_no_message() -> None:
    for fields in ({"secrets": {"A": "hush", "B": 1}}, {"secrets": "hush"}, {"secret": {"A": "hush"}}):
        assert "hush" not in wrong(**fields)
    (line,) = lines('{"id": 1, "secrets": {"A": "hush"}')
    assert isinstance(line.job, PolicyError) and "hush" not in str(line.job)


def test_data_is_text_base64_or_a_file_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256))
    (tmp_path / "in").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    coded = {"base64": base64.b64encode(data).decode()}
    made = job(files={"a": "ä", "b": {"text": "ä"}, "c": coded, "d": {"path": "in"}}, stdin=coded)
    assert made.files == {"a": "ä".encode(), "b": "ä".encode(), "c": data, "d": data} and made.stdin == data
    assert job(stdin="ä").stdin == "ä".encode()
    assert job(stdin={"path": "in"}).stdin == str(tmp_path / "in"), "read when the guest reads"


def test_limits_and_variables_of_a_job_are_over_the_batchs() -> None:
    made = job(limits={"cpu_seconds": 1, "on_overflow": "kill"}, env={"B": "2", "C": "3"})
    assert made.limits == Limits(wall_seconds=7, cpu_seconds=1, on_overflow=Overflow.KILL)
    assert made.env == {"A": "1", "B": "2", "C": "3"}
    assert job().limits == Limits(wall_seconds=7) and job().env == {"A": "1", "B": "1"}


def test_null_is_as_good_as_nothing() -> None:
    names = ("stdin", "limits", "env", "secrets", "cwd", "workspace", "files", "collect", "merge_stderr", "commit")
    assert job(**dict.fromkeys(names)) == job()
    assert "has no argv" in wrong(argv=None)


def test_blank_lines_carriage_returns_and_a_mark_at_the_beginning_are_no_matter() -> None:
    text = '\ufeff{"id": 1, "argv": ["x"]}\r\n\n  \t\n{"id": 2, "argv": ["x"]}'
    made = lines(text)
    assert [(line.number, line.id) for line in made] == [(1, 1), (4, 2)]


def test_no_more_is_read_than_was_asked_for() -> None:
    line = json.dumps({"id": 1, "argv": ["x" * 1000]}).encode() + b"\n"
    source = io.BytesIO(line * 1000)
    made = read(source, DEFAULTS)
    for count in range(1, 4):
        next(made)
        assert source.tell() == count * len(line)


def test_a_line_without_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblines, "LONGEST", 1000)

    class Sized(io.BytesIO):
        most = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            got = super().readline(size)
            self.most = max(self.most, len(got))
            return got

    last = b'{"id": 1, "argv": ["x"]}'
    source = Sized(b"x" * (5 << 20) + b"\n" + last)
    error, good = read(source, DEFAULTS)
    assert isinstance(error.job, PolicyError) and "path" in str(error.job) and isinstance(good.job, Job)
    assert (error.size, good.size) == ((5 << 20) + 1, len(last)) and source.most <= 1 << 20


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(sorted(joblines._READ)), VALUES, max_size=4)


@settings(max_examples=60, deadline=None)
@given(FIELDS | VALUES, VALUES)
def test_whatever_a_line_holds_it_is_a_job_or_an_error_of_ours(told: Any, id: Any) -> None:
    (line,) = lines(json.dumps({**told, "id": id} if isinstance(told, dict) else told))
    assert isinstance(line.job, (Job, PolicyError))
    assert line.key is None or (isinstance(id, float) and not math.isfinite(id)) or key_of(line.id) == line.key
