"""What is handed in as a program: files and directories, and nothing that leads the judge elsewhere or holds it up."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import judged
import pytest
from graded import problem

from sandbox_native import PolicyError
from sandbox_native.judge import Judge, Options, Store, Verdict, judge
from sandbox_native.judge.handed_in import SourceError, contents, source_at
from sandbox_native.judge.values import SourceFile, Submission

SUM = problem({"1": (b"1 2", b"3")})
SECRET = b"the answer is 3"
COPIES = b'cat "$(dirname "$0")/x.txt"'


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A directory with a program that prints what its own x.txt has, which is not there yet; and a secret beside it."""
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "main.sh").write_bytes(COPIES)
    return tmp_path / "evil"


def link_to_a_file(place: Path) -> None:
    place.symlink_to("../secret")


def link_to_a_directory(place: Path) -> None:
    place.symlink_to("/etc")


def link_to_nothing(place: Path) -> None:
    place.symlink_to("nowhere")


def link_to_itself(place: Path) -> None:
    place.symlink_to(place.name)


def pipe(place: Path) -> None:
    os.mkfifo(place)


def bound_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(place))


TRICKS: list[tuple[Callable[[Path], None], str]] = [
    (link_to_a_file, "it is a symbolic link, which could lead to whatever the judge may read"),
    (link_to_a_directory, "it is a symbolic link"),
    (link_to_nothing, "it is a symbolic link"),
    (link_to_itself, "it is a symbolic link"),
    (pipe, "it is a pipe"),
    (bound_socket, "it is a socket"),
]


@pytest.mark.parametrize(("make", "words"), TRICKS)
def test_what_is_no_file_is_refused_in_a_directory_and_alone(
    evil: Path, make: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(evil)  # names of sockets are short
    make(Path("x.txt"))
    with pytest.raises(SourceError, match=f"^submission .*evil='x.txt': {words}.*; put a file with the source itself there$"):
        source_at(evil)
    with pytest.raises(SourceError, match=words):
        source_at(evil / "x.txt")


@pytest.mark.parametrize(("make", "words"), TRICKS)
def test_what_becomes_no_file_later_is_not_opened(
    evil: Path, make: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (evil / "x.txt").write_bytes(b"")
    taken = source_at(evil)
    (evil / "x.txt").unlink()
    monkeypatch.chdir(evil)
    make(Path("x.txt"))
    with pytest.raises(SourceError, match=f"^program evil: x.txt='.*/evil/x.txt': {words}"):
        contents(taken)


def test_a_directory_is_no_file_of_a_program(evil: Path) -> None:
    with pytest.raises(SourceError, match="it is a directory"):
        contents(Submission(name="x", files=(SourceFile(name="x.sh", content=evil),)))


def test_files_are_named_as_they_lie(evil: Path) -> None:
    (evil / "lib").mkdir()
    (evil / "lib" / "b.sh").write_bytes(b"b")
    assert contents(source_at(evil)) == {"lib/b.sh": b"b", "main.sh": COPIES}
    assert contents(source_at(evil / "main.sh")) == {"main.sh": COPIES}


def test_a_directory_of_very_many_or_very_deep_ones_is_refused_and_not_listed_to_its_end(
    evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_native.judge.handed_in.MOST_FILES", 3)
    source_at(evil)
    for name in "abc":
        (evil / name).mkdir()  # they count too
    with pytest.raises(SourceError, match="too many files; hand in at most 3 files and directories"):
        source_at(evil)
    monkeypatch.undo()
    (evil / "/".join("d" * 40)).mkdir(parents=True)
    with pytest.raises(SourceError, match="nested too deep; nest directories at most 32 deep"):
        source_at(evil)


def test_an_empty_directory_is_its_author_s_fault_and_a_missing_one_the_caller_s(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no source there; put its files there"):
        source_at(tmp_path / "empty")
    for missing in (tmp_path / "missing", "\0"):
        with pytest.raises(PolicyError, match="no source there; name a file") as caught:
            source_at(missing)
        assert not isinstance(caught.value, SourceError)


# ---- judged ----

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.mark.parametrize("make", [link_to_a_file, pipe])
def test_a_trick_is_a_compile_error_by_every_way_in(tmp_path: Path, evil: Path, make: Callable[[Path], None]) -> None:
    options = Options(store=Store(tmp_path / "store"))
    right = judged.submission({"main.sh": "read a b; echo $((a + b))"})
    (evil / "x.txt").write_bytes(b"3")
    assert judge(evil, SUM, options).verdict is Verdict.AC
    taken = source_at(evil)
    (evil / "x.txt").unlink()
    make(evil / "x.txt")
    for way in (evil, evil / "x.txt", taken):
        judgement = judge(way, SUM, options)
        assert judgement.verdict is Verdict.CE and "it is a" in judgement.message and judgement.cases == ()
    with Judge(1, options) as many:
        found = [one.judgement.verdict for one in many.many([(evil, SUM), (taken, SUM), (right, SUM)], ordered=True)]
    assert found == [Verdict.CE, Verdict.CE, Verdict.AC]


def test_a_program_without_a_main_file_is_a_compile_error(tmp_path: Path) -> None:
    several = judged.submission({"a.py": "", "b.py": ""})
    judgement = judge(several, SUM, Options(store=Store(tmp_path / "store")))
    assert judgement.verdict is Verdict.CE and "no main file" in judgement.message
