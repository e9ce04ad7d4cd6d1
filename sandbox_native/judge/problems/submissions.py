"""The submissions that come with a package, and what is expected of each.

`read_submissions` is called by package.py. In the legacy formats the directory says what the verdict must be; in 2025-09 the
rules of submission_rules.py do. A tag of DOMjudge's in a source says it for directories that the format does not know, and
narrows it in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.problems.domjudge import Tag, read_tags
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.metadata import Metadata
from sandbox_native.judge.problems.programs import program
from sandbox_native.judge.problems.submission_rules import Rule, read_rules
from sandbox_native.judge.problems.tree import MOST_TEXT_BYTES, Entry, Tree
from sandbox_native.judge.values import Expectation, Requirement, Submission
from sandbox_native.judge.verdicts import Verdict, read_verdict

_PLACE: Final = "submissions"
_CRASHES: Final = frozenset({Verdict.RTE, Verdict.MLE, Verdict.OLE, Verdict.FS})  # the format has one name for all of them
_REJECTED: Final = frozenset(Verdict) - {Verdict.AC, Verdict.JE}
_LEGACY: Final = {
    "accepted": Expectation(
        verdicts=frozenset({Verdict.AC}), requirements=(Requirement(bounds_time="lower", origin="submissions/accepted"),)
    ),
    "partially_accepted": Expectation(verdicts=frozenset({Verdict.AC}), partial=True),
    "wrong_answer": Expectation(verdicts=frozenset({Verdict.WA})),
    "time_limit_exceeded": Expectation(
        verdicts=frozenset({Verdict.TLE}),
        requirements=(Requirement(bounds_time="upper", origin="submissions/time_limit_exceeded"),),
    ),
    "run_time_error": Expectation(verdicts=_CRASHES),
    "rejected": Expectation(verdicts=_REJECTED),
}


def read_submissions(tree: Tree, metadata: Metadata, notes: list[str]) -> tuple[Submission, ...]:
    """All submissions, ordered by name. ProblemError for a tag or a rule that makes no sense."""
    rules = () if metadata.legacy else read_rules(tree, metadata.scoring)
    found: list[Submission] = []
    for directory in tree.children(_PLACE):
        if not directory.directory:
            continue
        if directory.name == "partially_accepted" and not metadata.scoring:
            raise ProblemError(
                "a submission is accepted in part in scoring problems only",
                file=f"{directory.inside}/",
                field="type",
                value="pass-fail",
                remedy="move its submissions, or write `type: scoring` into problem.yaml",
            )
        for entry in tree.children(directory.inside):
            if not entry.name.upper().startswith("README"):
                found.append(_submission(tree, entry, directory.name, rules, metadata, notes))
    if found and not any(submission.name.startswith("accepted/") for submission in found):
        notes.append("submissions/accepted/ is empty: nothing shows that the problem can be solved, nor gives a time limit")
    return tuple(found)


def _submission(
    tree: Tree, entry: Entry, directory: str, rules: Sequence[Rule], metadata: Metadata, notes: list[str]
) -> Submission:
    source = program(tree, entry, metadata.constants)
    name = entry.inside.removeprefix(f"{_PLACE}/")
    applying = [rule for rule in rules if rule.applies(name)]
    expected = _of_directory(directory) if metadata.legacy else _of_rules(applying, directory)
    tag = _tag(tree, entry, notes)
    if tag is not None:
        expected = _narrowed(expected, tag, entry)
    if expected is None:
        notes.append(f"{entry.inside}: nothing says what is expected of it")
    return Submission(
        name=name,
        files=source.files,
        language=next((rule.language for rule in reversed(applying) if rule.language), None),
        entry_point=next((rule.entry_point for rule in reversed(applying) if rule.entry_point), None),
        expected=expected,
    )


def _of_directory(directory: str) -> Expectation | None:
    standard = _LEGACY.get(directory)
    if standard is None:
        try:
            standard = Expectation(verdicts=frozenset({read_verdict(directory)}))
        except PolicyError:
            return None
    return replace(standard, origin=f"submissions/{directory}")


def _of_rules(rules: Sequence[Rule], directory: str) -> Expectation | None:
    requirements = tuple(requirement for rule in rules for requirement in rule.requirements)
    if requirements:
        return Expectation(requirements=requirements, origin=requirements[0].origin)
    return _of_directory(directory) if directory not in _LEGACY or directory == "partially_accepted" else None


def _tag(tree: Tree, entry: Entry, notes: list[str]) -> Tag | None:
    """The first tag in the files of a submission; files too large for a source are not looked at."""
    for file in tree.files(entry.inside) if entry.directory else (entry,):
        if file.size <= MOST_TEXT_BYTES:
            tag = read_tags(tree.content(file), file.inside, notes)
            if tag is not None:
                return tag
    return None


def _narrowed(expected: Expectation | None, tag: Tag, entry: Entry) -> Expectation:
    """What directory and tag say together; the directory counts where both speak, as in DOMjudge."""
    if expected is None:
        return Expectation(verdicts=tag.verdicts, score=tag.score, origin="@EXPECTED_RESULTS@")
    both = expected.verdicts
    if both is not None and tag.verdicts is not None:
        both = both & tag.verdicts
        if not both:
            raise ProblemError(
                f"its directory says {' or '.join(sorted(expected.verdicts or ()))}",
                file=entry.inside,
                field="@EXPECTED_RESULTS@",
                value=", ".join(sorted(tag.verdicts)),
                remedy="move the submission, to submissions/mixed for several verdicts, or correct the tag",
            )
    return replace(expected, verdicts=both, score=tag.score)
