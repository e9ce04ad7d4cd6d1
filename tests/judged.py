"""Submissions made of a few words, and programs compiled from them into a store of the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sandbox_native import Limits
from sandbox_native.judge.compiling import Compiled, compile_submission
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import ProblemLimits, SourceFile, Submission

BEHAVIOURS = Path(__file__).parent / "data" / "behaviours"


def submission(
    files: Mapping[str, str | bytes | Path], language: str | None = None, entry_point: str | None = None
) -> Submission:
    contents = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    return Submission(
        name="+".join(files),
        files=tuple(SourceFile(name=name, content=content) for name, content in contents.items()),
        language=language,
        entry_point=entry_point,
    )


def compiled(
    store: Store,
    files: Mapping[str, str | bytes | Path],
    language: str | None = None,
    entry_point: str | None = None,
    limits: ProblemLimits | Limits | None = None,
) -> Compiled:
    return compile_submission(submission(files, language, entry_point), limits=limits or ProblemLimits(), store=store)
