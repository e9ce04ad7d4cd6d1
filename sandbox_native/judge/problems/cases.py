"""The files of a directory of test data, put together to cases.

Used by testdata.py, test_groups.py and validation_data.py (packages) and by folder.py. A case is there when its `.in` is; the
files that belong to it have the same name with another ending.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.tree import Entry, Tree
from sandbox_native.judge.values import SourceFile

_MOST_WORDS_BYTES: Final = 64 << 10
# For whoever writes or reads a statement; of no use in judging.
_SHOWN: Final = (
    "in.statement",
    "ans.statement",
    "in.download",
    "ans.download",
    "interaction",
    "out",
    "png",
    "jpg",
    "jpeg",
    "svg",
)
_JUDGED: Final = ("in", "ans", "hint", "desc", "yaml")


@dataclass(slots=True)
class Found:
    """One case's files. `name` is the path under data/ without ending; `others`: ending -> entry."""

    name: str
    input: Entry
    answer: Entry
    files: tuple[SourceFile, ...] = ()
    others: dict[str, Entry] = field(default_factory=dict)

    def words(self, tree: Tree, ending: str) -> str:
        """The text of a `.hint` or `.desc`; empty when there is none."""
        entry = self.others.get(ending)
        return tree.text(entry, _MOST_WORDS_BYTES).strip() if entry else ""


def found_cases(tree: Tree, inside: str, *, answers: str = "ans") -> list[Found]:
    """The cases right in a directory, ordered by name.

    ProblemError for an input without its answer, and for an answer (or a `.yaml` of a case) without its input.
    """
    found: list[Found] = []
    for stem, entries in by_stem(tree, inside, answers).items():
        if "in" in entries:
            found.append(_found(tree, inside, stem, entries, answers))
        elif answers in entries:
            raise ProblemError(
                "an answer belongs to an input, and there is none",
                file=entries[answers].inside,
                field="input",
                value=f"{inside}/{stem}.in".lstrip("/"),
                remedy="add the input, or remove the answer",
            )
    return found


def by_stem(tree: Tree, inside: str, answers: str = "ans") -> dict[str, dict[str, Entry]]:
    """The files of a directory that belong to cases: name without ending -> ending -> entry, ordered by name."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in tree.children(inside):
        stem, ending = _parted(entry, answers)
        if ending:
            found.setdefault(stem, {})[ending] = entry
    return dict(sorted(found.items()))


def _found(tree: Tree, inside: str, stem: str, entries: dict[str, Entry], answers: str) -> Found:
    answer = entries.get(answers)
    if answer is None:
        raise ProblemError(
            "an input needs an answer, and there is none",
            file=entries["in"].inside,
            field="answer",
            value=f"{inside}/{stem}.{answers}".lstrip("/"),
            remedy="add the answer (it may be empty where a validator of the package's own judges)",
        )
    files = files_of(tree, entries.get("files"))
    name = f"{inside}/{stem}".removeprefix("data/")
    others = {ending: entry for ending, entry in entries.items() if ending in ("hint", "desc", "yaml")}
    return Found(name, entries["in"], answer, files, others)


def files_of(tree: Tree, place: Entry | None) -> tuple[SourceFile, ...]:
    """What a case's `.files` holds."""
    if place is None:
        return ()
    cut = len(place.inside) + 1
    return tuple(
        SourceFile(name=file.inside[cut:], content=file.path, executable=file.executable) for file in tree.files(place.inside)
    )


def _parted(entry: Entry, answers: str) -> tuple[str, str]:
    """Name and ending of a file that belongs to a case; an empty ending for any other."""
    if entry.directory:
        stem = entry.name.removesuffix(".files")
        return (stem, "files") if stem and stem != entry.name else ("", "")
    for ending in (*_SHOWN, *_JUDGED, answers):
        if entry.name.endswith(f".{ending}"):
            stem = entry.name[: -len(ending) - 1]
            return (stem, ending) if stem and stem not in ("testdata", "test_group") else ("", "")
    return "", ""


def no_cases(tree: Tree, inside: str) -> ProblemError:
    """The error for a directory of test data without a case."""
    return ProblemError(
        "there must be at least one case, and there is none",
        file=f"{inside}/",
        field="files",
        value=[entry.name for entry in tree.children(inside)],
        remedy="put a pair of files there, 1.in and 1.ans, or remove it",
    )


def subdirectories(tree: Tree, inside: str) -> Iterator[Entry]:
    """The directories in a directory that are not the files of a case."""
    for entry in tree.children(inside):
        if entry.directory and not entry.name.endswith(".files"):
            yield entry
