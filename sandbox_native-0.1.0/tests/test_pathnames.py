r"""Spellings of paths by Windows: the one normal spelling, and what is refused because it means something else."""

from __future__ import annotations

import pathlib

import pytest

from sandbox_native.errors import PolicyError
from sandbox_native.pathnames import POSIX, WINDOWS, Spelling


def refusal(spelling: Spelling, value: object, *, relative: bool = False) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        spelling.relative("f", value) if relative else spelling.absolute("f", value)
    assert (caught.value.field, bool(caught.value.remedy), bool(caught.value.value)) == ("f", True, True)
    return caught.value


@pytest.mark.parametrize(
    ("value", "normal"),
    [
        ("C:\\", "C:\\"),
        ("c:/", "C:\\"),
        ("c:/Users//x/.\\y\\", "C:\\Users\\x\\y"),
        ("C:\\\\a", "C:\\a"),
        ("\\\\?\\c:\\a\\b", "C:\\a\\b"),
        ("\\\\?\\C:\\", "C:\\"),
        ("\\\\server\\share", "\\\\server\\share\\"),
        ("//server/share/a/", "\\\\server\\share\\a"),
        ("\\\\?\\UNC\\server\\share\\a", "\\\\server\\share\\a"),
        ("\\\\?\\unc\\server\\share", "\\\\server\\share\\"),
        ("\\\\10.0.0.7\\data$\\x", "\\\\10.0.0.7\\data$\\x"),
        ("C:\\.git", "C:\\.git"),
        ("C:\\ leading", "C:\\ leading"),
        ("C:\\console\\nullify\\com10\\lpt", "C:\\console\\nullify\\com10\\lpt"),
        ("C:\\a~b\\longer name~1.text", "C:\\a~b\\longer name~1.text"),
        (pathlib.PureWindowsPath("C:/a"), "C:\\a"),
    ],
)
def test_one_normal_spelling(value: object, normal: str) -> None:
    assert WINDOWS.absolute("f", value) == normal


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("C:x", "relative to its drive's current directory"),
        ("C:", "relative to its drive's current directory"),
        ("\\x", "relative to the current drive"),
        ("/x", "relative to the current drive"),
        ("x\\y", "not an absolute path"),
        ("é:\\x", "not an absolute path"),
        ("C:\\a\\..\\b", "holds '..'"),
        ("\\\\?\\C:\\a\\..\\b", "holds '..'"),
        ("\\\\?\\C:\\a\\.\\b", "\\\\?\\ takes names as they are"),
        ("\\\\?\\C:\\a/b", "\\\\?\\ takes names as they are"),
        ("\\\\?\\C:\\a\\\\b", "\\\\?\\ takes names as they are"),
        ("\\\\?\\C:", "names a volume or a device, not a place on a drive"),
        ("\\\\?\\Volume{b75e2c83-0000-0000-0000-602f00000000}\\x", "names a volume or a device, not a place on a drive"),
        ("\\\\?\\GLOBALROOT\\Device\\Harddisk0\\x", "names a volume or a device, not a place on a drive"),
        ("\\\\.\\C:\\x", "in the name space of devices"),
        ("\\\\.\\PhysicalDrive0", "in the name space of devices"),
        ("\\\\.\\pipe\\x", "in the name space of devices"),
        ("//./C:/x", "in the name space of devices"),
        ("//?/C:/x", "in the name space of devices"),
        ("\\??\\C:\\x", "in the name space of devices"),
        ("\\\\server", "has no name of a share"),
        ("\\\\server\\", "has no name of a share"),
        ("\\\\server\\..\\x", "has no name of a share"),
        ("\\\\\\server\\share", "has no name of a server"),
        ("\\\\.", "has no name of a server"),
        ("\\\\server.\\share", "has no name of a server"),
        ("\\\\server@SSL\\share", "has no name of a server"),
        ("\\\\2130706433\\share", "has no name of a server"),
        ("\\\\0x7f.1\\share", "has no name of a server"),
        ("\\\\ｌocalhost\\share", "has no name of a server"),
        ("\\\\LocalHost\\share", "another name of this machine's own files"),
        ("\\\\127.0.0.1\\share", "another name of this machine's own files"),
        ("\\\\--1.ipv6-literal.net\\share", "another name of this machine's own files"),
        ("\\\\server\\c$\\x", "an administrative share"),
        ("\\\\server\\ADMIN$", "an administrative share"),
        ("C:\\x.", "Windows drops the end of 'x.'"),
        ("C:\\x \\y", "Windows drops the end of 'x '"),
        ("C:\\...", "Windows drops the end of '...'"),
        ("\\\\?\\C:\\x.", "Windows drops the end of 'x.'"),
        ("C:\\x:stream", "x:stream names a stream of a file"),
        ("C:\\x::$DATA", "x::$DATA names a stream of a file"),
        ("C:\\d:$I30:$INDEX_ALLOCATION\\x", "d:$I30:$INDEX_ALLOCATION names a stream of a file"),
        ("C:\\C:\\x", "C: names a stream of a file"),
        ("C:\\a*", "'a*' holds a character that no name may hold"),
        ("C:\\a\tb", "'a\\tb' holds a character that no name may hold"),
        ("C:\\PROGRA~1\\x", "PROGRA~1 may be the short name of another file"),
        ("C:\\x\\LONGF~12.TXT", "LONGF~12.TXT may be the short name of another file"),
        ("C:\\a\0", "holds a NUL byte"),
        ("", "empty"),
        (b"C:\\a", "not a path"),
        (None, "not a path"),
        ("C:\\" + "a" * 256, "a name in it has more than 255 UTF-16 units"),
        ("C:\\" + "𐐀" * 128, "a name in it has more than 255 UTF-16 units"),
        ("C:\\" + "a\\" * 16384, "32771 UTF-16 units long"),
    ],
)
def test_what_means_something_else_is_refused(value: object, reason: str) -> None:
    assert refusal(WINDOWS, value).reason == reason


@pytest.mark.parametrize("device", ["CON", "prn", "Aux", "NUL", "COM1", "com9", "LPT1", "COM¹", "LPT³", "CONIN$", "conout$"])
@pytest.mark.parametrize("tail", ["", ".txt", " .txt", ".", " ", ":", ".tar.gz", ":stream"])
def test_a_device_is_refused_in_every_place(device: str, tail: str) -> None:
    for path in (
        f"C:\\a\\{device}{tail}",
        f"C:\\{device}{tail}\\a",
        f"\\\\server\\{device}{tail}\\a",
        f"\\\\?\\C:\\{device}{tail}",
    ):
        assert "is a device" in refusal(WINDOWS, path).reason
    assert "is a device" in refusal(WINDOWS, f"a\\{device}{tail}", relative=True).reason


@pytest.mark.parametrize("name", ["\\x", "/x", "C:x", "C:\\x", "c:/x", "\\\\server\\share\\x", "\\\\?\\C:\\x", "\\\\.\\x"])
def test_a_name_with_a_root_is_refused(name: str) -> None:
    assert refusal(WINDOWS, name, relative=True).reason == "an absolute name"


@pytest.mark.parametrize("name", [".", "a\\", "a/", "a\\.", "a/."])
def test_a_name_of_a_directory_is_refused(name: str) -> None:
    assert refusal(WINDOWS, name, relative=True).reason == "names a directory"


def test_case_is_folded_as_the_file_system_does() -> None:
    for outer, inner in (("C:\\ABC", "C:\\abc\\x"), ("C:\\É", "C:\\é"), ("\\\\Server\\Share\\", "\\\\SERVER\\share\\x")):
        assert WINDOWS.contains(outer, inner)
    for one, other in (("ß", "SS"), ("ı", "I"), ("ſ", "S"), ("\u212a", "k"), ("ﬁ", "FI"), ("𐐨", "𐐀"), ("µ", "Μ")):
        assert not WINDOWS.contains(f"C:\\{one}", f"C:\\{other}")
    assert not POSIX.contains("/ABC", "/abc")
