"""A package's own programs that come with scripts: `build` makes `run`, and `run` is what is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from graded import bash, problem, verdict

from sandbox_native.judge.outcomes import Judgement
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Checker, CheckerKind, ProgramSource, SourceFile
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

CODE = "int main(int count, char **words) { return count > 3 ? 42 : 43; }\n"
RUN = '#!/bin/sh\nexec "$(dirname "$0")"/val "$@"\n'


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def judged(store: Store, files: Mapping[str, str]) -> Judgement:
    program = ProgramSource(name="v", files=tuple(SourceFile(name=name, content=text.encode()) for name, text in files.items()))
    return verdict(store, bash("echo 1"), problem(checker=Checker(kind=CheckerKind.PROGRAM, program=program)))


def test_run_is_made_by_build(store: Store) -> None:
    files = {"build": "#!/bin/sh\nprintf '#!/bin/sh\\nexit 42\\n' > run; chmod +x run\n"}
    assert judged(store, files).verdict is Verdict.AC


def test_run_starts_what_build_made_of_the_other_files(store: Store) -> None:
    files = {"build": "#!/bin/sh\ncc -o val inner/val.c\n", "run": RUN, "inner/val.c": CODE}
    assert judged(store, files).verdict is Verdict.AC
    assert judged(store, {**files, "run": "#!/bin/sh\nexit 43\n"}).verdict is Verdict.WA


def test_run_alone_is_run_whatever_lies_beside_it(store: Store) -> None:
    files = {"run": '#!/bin/sh\nexec python3 "$(dirname "$0")/check.py"\n', "check.py": "import sys\nsys.exit(42)\n"}
    assert judged(store, files).verdict is Verdict.AC
    assert judged(store, {"run": "#!/bin/sh\nexit 43\n", "check.py": "import sys\nsys.exit(42)\n"}).verdict is Verdict.WA


@pytest.mark.parametrize(
    ("build", "words"),
    [
        ("exit 42", "does not compile (error)"),
        ("exit 0", "build has left no executable run"),
        ("echo '#!/bin/sh' > run", "build has left no executable run"),
        ("echo no such tool; exit 3", "no such tool"),
        ("ln -s build run", "run: "),
    ],
)
def test_a_build_that_makes_no_run_is_a_judge_error(store: Store, build: str, words: str) -> None:
    judgement = judged(store, {"build": f"#!/bin/sh\n{build}\n"})
    assert judgement.verdict is Verdict.JE and words in judgement.message


def test_what_was_built_is_kept(store: Store) -> None:
    build = "#!/bin/sh\ncp /proc/sys/kernel/random/uuid id; chmod +x run\n"
    run = '#!/bin/sh\ncat "$(dirname "$0")/id" > judgemessage.txt; exit 43\n'
    first, second = (judged(store, {"build": build, "run": run}) for _ in range(2))
    assert first.cases[0].message and first.cases[0].message == second.cases[0].message
