r"""Spellings of paths by POSIX and Windows: what no spelling can do, and that the standard library's modules agree."""

from __future__ import annotations

import ntpath
import pathlib
import posixpath
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sandbox_native.errors import PolicyError
from sandbox_native.pathnames import POSIX, WINDOWS, Spelling

BOTH = pytest.mark.parametrize("spelling", [POSIX, WINDOWS], ids=["posix", "windows"])
LETTERS = "abAB1é.~ -_ßſıK$"
NAMES = st.text(alphabet=LETTERS, min_size=1, max_size=5)
HOSTILE = st.sampled_from(
    [
        "",
        ".",
        "..",
        "...",
        "x.",
        "x ",
        "CON",
        "nul.txt",
        "com1",
        "LPT¹",
        "x:y",
        "x::$DATA",
        "PROGRA~1",
        "a?",
        "\x01",
        "UNC",
        "C:",
        "?",
    ]
)
SEPARATORS = st.sampled_from(["\\", "/", "\\\\", "//", "\\/", "\\.\\", "/./"])
ROOTS = st.sampled_from(
    [
        "C:\\",
        "c:/",
        "\\\\?\\C:\\",
        "\\\\?\\c:\\",
        "\\\\server\\share\\",
        "//SERVER/share/",
        "\\\\?\\UNC\\server\\share\\",
        "\\\\.\\C:\\",
        "\\??\\C:\\",
        "//?/C:/",
        "C:",
        "\\",
        "/",
        "\\\\localhost\\C$\\",
        "\\\\?\\Volume{1}\\",
        "",
        "\\\\",
        "//",
    ]
)


def ordinary(name: str) -> bool:
    """No name that Windows reads as something else."""
    try:
        return WINDOWS.relative("f", name) == name
    except PolicyError:
        return False


PLAIN = NAMES.filter(ordinary).filter(lambda name: name not in (".", ".."))
PARTS = st.lists(PLAIN, max_size=4)


def refusal(spelling: Spelling, value: object, *, relative: bool = False) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        spelling.relative("f", value) if relative else spelling.absolute("f", value)
    assert (caught.value.field, bool(caught.value.remedy), bool(caught.value.value)) == ("f", True, True)
    return caught.value


def at(spelling: Spelling, parts: list[str], root: str = "") -> str:
    return (root or ("/" if spelling is POSIX else "C:\\")) + spelling.separator.join(parts)


@st.composite
def messy(draw: st.DrawFn) -> str:
    """Roots, names and separators of every kind, most of them nonsense."""
    text = draw(ROOTS)
    for name in draw(st.lists(PLAIN | HOSTILE, max_size=5)):
        text += name + draw(SEPARATORS)
    return text if draw(st.booleans()) else text.rstrip("\\/")


@st.composite
def spelled(draw: st.DrawFn, parts: list[str]) -> str:
    r"""One of the many spellings of C:\parts."""
    letter = draw(st.sampled_from("Cc"))
    turned = [draw(st.sampled_from([name, name.swapcase() if name.isascii() else name])) for name in parts]
    if draw(st.booleans()):
        return f"\\\\?\\{letter}:\\" + "\\".join(turned)
    text = letter + ":" + draw(st.sampled_from(["\\", "/"]))
    for name in turned:
        text += name + draw(SEPARATORS)
    return text


class TestWindows:
    @given(messy())
    def test_agrees_with_ntpath_on_what_passes(self, text: str) -> None:
        try:
            normal = WINDOWS.absolute("f", text)
        except PolicyError:
            return
        plain = text.removeprefix("\\\\?\\UNC").removeprefix("\\\\?\\") if text.startswith("\\\\?\\") else text
        if text.upper().startswith("\\\\?\\UNC"):
            plain = "\\" + plain
        assert normal.rstrip("\\").upper() == ntpath.normpath(plain).rstrip("\\").upper()
        path = pathlib.PureWindowsPath(normal)
        assert path.is_absolute() and not path.is_reserved() and str(path) == normal
        assert ntpath.normpath(normal).rstrip("\\") == normal.rstrip("\\")

    @given(PARTS)
    def test_case_of_names_is_kept(self, parts: list[str]) -> None:
        assert WINDOWS.absolute("f", "c:/" + "/".join(parts)) == at(WINDOWS, parts)

    @given(parts=st.lists(PLAIN, min_size=1, max_size=3), more=PARTS, data=st.data())
    def test_no_spelling_of_a_contained_path_escapes(self, parts: list[str], more: list[str], data: st.DataObject) -> None:
        inner = WINDOWS.absolute("f", data.draw(spelled(parts + more)))
        outer = WINDOWS.absolute("f", data.draw(spelled(parts)))
        assert WINDOWS.contains(outer, inner)

    @given(parts=st.lists(PLAIN, min_size=1, max_size=3), data=st.data())
    def test_what_windows_reads_as_a_contained_path_is_refused_or_contained(self, parts: list[str], data: st.DataObject) -> None:
        """Spellings that the system takes for a file in the directory: each is found out, or refused."""
        place = at(WINDOWS, parts)
        tail = data.draw(st.sampled_from(["x.", "x ", "x::$DATA", "x. .", ".\\x", "X", "..\\" + parts[-1] + "\\x", "D~1\\x"]))
        prefix = data.draw(
            st.sampled_from(["", "\\\\?\\", "\\\\.\\", "\\??\\", "//?/", "\\\\localhost\\C$\\", "\\\\127.0.0.1\\"])
        )
        text = prefix + (place[3:] if prefix.endswith("$\\") else place) + "\\" + tail
        try:
            normal = WINDOWS.absolute("f", text)
        except PolicyError:
            return
        assert WINDOWS.contains(place, normal)


class TestPosix:
    @given(st.text(alphabet="ab./é\udcff\\:", max_size=12))
    def test_agrees_with_posixpath_on_what_passes(self, text: str) -> None:
        try:
            normal = POSIX.absolute("f", text)
        except PolicyError:
            return
        assert normal == "/" + posixpath.normpath(text).lstrip("/")
        assert str(pathlib.PurePosixPath(normal)) == normal

    @given(NAMES)
    def test_what_windows_refuses_is_an_ordinary_name(self, name: str) -> None:
        assume(name not in (".", ".."))
        for text in (name, f"CON{name}", f"{name}:{name}", f"{name}."):
            assume(text != "..")
            assert POSIX.absolute("f", f"/{text}") == f"/{text}"


@BOTH
class TestContains:
    @given(parts=PARTS, more=st.lists(PLAIN, min_size=1, max_size=3), longer=PLAIN)
    def test_is_by_component(self, spelling: Spelling, parts: list[str], more: list[str], longer: str) -> None:
        outer = at(spelling, parts)
        assert spelling.contains(outer, outer)
        assert spelling.contains(outer, at(spelling, parts + more))
        assert not spelling.contains(at(spelling, parts + more), outer)
        assert not spelling.contains(at(spelling, [*parts, "data"]), at(spelling, [*parts, "data" + longer.strip(". ") + "1"]))

    @given(st.lists(st.lists(st.sampled_from(["a", "A", "b", "ab"]), max_size=3), min_size=3, max_size=3))
    def test_is_an_order(self, spelling: Spelling, lists: list[list[str]]) -> None:
        one, two, three = (at(spelling, parts) for parts in lists)
        assert spelling.contains(one, one)
        if spelling.contains(one, two) and spelling.contains(two, three):
            assert spelling.contains(one, three)
        if spelling.contains(one, two) and spelling.contains(two, one):
            assert spelling.folded(one) == spelling.folded(two)
        if spelling is POSIX:
            assert spelling.contains(one, two) is (lists[1][: len(lists[0])] == lists[0])

    def test_one_drive_or_share_does_not_contain_another(self, spelling: Spelling) -> None:
        assert not WINDOWS.contains("C:\\", "D:\\x")
        assert not WINDOWS.contains("\\\\server\\share\\", "\\\\server\\share2\\x")
        assert WINDOWS.contains("\\\\server\\share\\", "\\\\server\\share\\x")


@BOTH
class TestEverySpelling:
    @given(messy())
    def test_normalising_twice_changes_nothing(self, spelling: Spelling, text: str) -> None:
        try:
            normal = spelling.absolute("f", text)
        except PolicyError as error:
            assert error.field == "f" and error.reason and error.remedy
            return
        assert spelling.absolute("f", normal) == normal
        assert spelling.absolute("f", normal + spelling.separator) == normal

    @given(base=PARTS, name=messy())
    def test_join_never_leaves(self, spelling: Spelling, base: list[str], name: str) -> None:
        above = at(spelling, base)
        try:
            joined = spelling.join("f", above, name)
        except PolicyError:
            return
        assert spelling.contains(above, joined) and spelling.folded(joined) != spelling.folded(above)
        assert spelling.relative("f", name) == joined.removeprefix(above).lstrip(spelling.separator)
        library = ntpath if spelling is WINDOWS else posixpath
        assert library.normpath(library.join(above, name)) == joined

    @given(parts=PARTS, where=st.integers(0, 4), separator=SEPARATORS)
    def test_dot_dot_anywhere_is_refused(self, spelling: Spelling, parts: list[str], where: int, separator: str) -> None:
        parts.insert(where, "..")
        separator = "/" if spelling is POSIX else separator
        assert refusal(spelling, at(spelling, []) + separator.join(parts)).reason == "holds '..'"
        assert refusal(spelling, separator.join(parts), relative=True).reason == "holds '..'"

    @given(st.text())
    def test_any_text_is_normalised_or_refused(self, spelling: Spelling, text: str) -> None:
        for take in (spelling.absolute, spelling.relative):
            try:
                normal = take("f", text)
            except PolicyError:
                continue
            assert ".." not in re.split(r"[\\/]" if spelling is WINDOWS else "/", normal) and "\0" not in normal
