"""An archive of a stranger unpacks to a package, or to nothing outside of the directory that it was given."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest
from problem_packages import LEAST, package

from sandbox_native.judge.problems import ProblemError, archive, load_problem, unpack_package

LINK = stat.S_IFLNK | 0o777


def packed(place: Path, members: list[tuple[str, bytes, int]], name: str = "small.zip") -> Path:
    place.mkdir(exist_ok=True)
    path = place / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for inside, content, mode in members:
            info = zipfile.ZipInfo(inside)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, content)
    return path


def least(prefix: str = "") -> list[tuple[str, bytes, int]]:
    return [(prefix + name, content.encode(), 0o644) for name, content in LEAST.items()]


@pytest.mark.parametrize("prefix", ["", "inner/"])
def test_an_archive_unpacks_to_its_package(tmp_path: Path, prefix: str) -> None:
    members = [*least(prefix), (prefix + "output_validators/v/run", b"", 0o755), (prefix + "data/secret/2.in", b"1.in", LINK)]
    members.append((prefix + "data/secret/2.ans", b"../secret/1.ans", LINK))
    root = unpack_package(packed(tmp_path / "a", members), tmp_path)
    problem = load_problem(root)
    assert problem.name == ("inner" if prefix else "small") and len(problem.cases()) == 2
    assert os.access(root / "output_validators/v/run", os.X_OK)


def test_load_problem_says_how_to_unpack(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="unpack_package"):
        load_problem(packed(tmp_path, least(), "small.kpp"))


ELSEWHERE = [
    (("../evil", b"", 0o644), "member"),
    (("a/../../evil", b"", 0o644), "member"),
    (("/tmp/evil-of-an-archive", b"", 0o644), "member"),
    (("..\\evil", b"", 0o644), "member"),
    (("a" * 300, b"", 0o644), "member"),
    (("/".join("a" * 40), b"", 0o644), "member"),
    (("pipe", b"", stat.S_IFIFO | 0o644), "member"),
    (("link", b"/etc/passwd", LINK), "link"),
    (("data/link", b"../../evil", LINK), "link"),
    (("link", b"a" * 5000, LINK), "link"),
    (("link", b"a\0b", LINK), "link"),
    (("problem.yaml", b"", 0o644), "member"),
    (("problem.yaml", b"data", LINK), "member"),
    (("problem.yaml/x", b"", 0o644), "member"),
    (("data", b"", 0o644), "member"),
    ((".", b"", 0o644), "member"),
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    for number, (member, field) in enumerate(ELSEWHERE):
        place = tmp_path / str(number)
        into = place / "into"
        into.mkdir(parents=True)
        with pytest.raises(ProblemError) as raised:
            unpack_package(packed(place, [*least(), member]), into)
        error = raised.value
        assert error.field == field and error.file == "small.zip" and error.remedy, member
        assert sorted(path.name for path in place.iterdir()) == ["into", "small.zip"], member
        assert [path.name for path in into.iterdir()] == ["small"]
    assert not Path("/tmp/evil-of-an-archive").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    members = [("a", b"b", LINK), ("a/x", b"content", 0o644), ("b/y", b"", 0o644)]
    with pytest.raises(ProblemError, match="a file and a directory"):
        unpack_package(packed(tmp_path / "a", members), tmp_path)
    assert not (tmp_path / "small/b/x").exists()


def test_bytes_are_counted_as_they_come_out(tmp_path: Path) -> None:
    bomb = packed(tmp_path / "a", [*least(), ("data/secret/2.in", bytes(50_000_000), 0o644)])
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ProblemError) as raised:
        unpack_package(bomb, tmp_path, most_bytes=1_000_000)
    assert raised.value.field == "size"
    assert (tmp_path / "small/data/secret/2.in").stat().st_size <= 1_000_000


def test_a_size_that_the_archive_lies_about_is_not_believed(tmp_path: Path) -> None:
    data = bytearray(packed(tmp_path / "a", [("1.in", bytes(5_000_000), 0o644)]).read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    liar = tmp_path / "liar.zip"
    liar.write_bytes(data)
    with pytest.raises(ProblemError):
        unpack_package(liar, tmp_path, most_bytes=1_000_000)
    assert (tmp_path / "liar/1.in").stat().st_size <= 1_000_000


def test_members_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_ENTRIES", 3)
    with pytest.raises(ProblemError) as raised:
        unpack_package(packed(tmp_path / "a", least()), tmp_path)
    assert raised.value.field == "entries" and not (tmp_path / "small").exists()


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    data = bytearray(packed(tmp_path / "a", [("1.in", b"x", 0o644)]).read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + place] |= 1
    (tmp_path / "small.zip").write_bytes(data)
    with pytest.raises(ProblemError, match="encrypted"):
        unpack_package(tmp_path / "small.zip", tmp_path)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    whole = packed(tmp_path / "a", least()).read_bytes()
    broken = bytearray(whole)
    broken[40:60] = bytes(20)
    for number, data in enumerate((b"", b"PK", whole[: len(whole) // 2], bytes(broken), io.BytesIO(b"x" * 5000).read())):
        path = tmp_path / f"bad{number}.zip"
        path.write_bytes(data)
        with pytest.raises(ProblemError) as raised:
            unpack_package(path, tmp_path)
        assert raised.value.field in ("archive", "member")


def test_a_directory_that_is_there_is_not_unpacked_into(tmp_path: Path) -> None:
    package(tmp_path)
    with pytest.raises(FileExistsError):
        unpack_package(packed(tmp_path / "a", least()), tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_a_damaged_archive_is_refused_however_it_was_packed(tmp_path: Path, method: int) -> None:
    path = tmp_path / "small.zip"
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("problem.yaml", os.urandom(5000).hex())
    data = bytearray(path.read_bytes())
    data[60:2000] = bytes(byte ^ 0x5A for byte in data[60:2000])
    path.write_bytes(data)
    with pytest.raises(ProblemError, match="not an archive that can be read"):
        unpack_package(path, tmp_path)


def test_a_member_whose_name_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "a", [("é.txt", b"", 0o644)])
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xfe"))
    with pytest.raises(ProblemError, match="not an archive that can be read"):
        unpack_package(path, tmp_path)
