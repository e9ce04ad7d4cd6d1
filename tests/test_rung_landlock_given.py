"""Rung `landlock`: what a guest is given, and that ordinary programs run there."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import boxes
import pytest
import without_namespaces
from boxes import Guests
from running import sh
from without_namespaces import Try, left, own

from sandbox_native import Result, Rung, Sandbox

pytestmark = without_namespaces.MARKS


# ---- what it is given ----


def test_descriptors_signals_and_environment_are_clean(with_box: Try, public: Guests) -> None:
    def work(box: Sandbox) -> None:
        os.environ["SECRET_TOKEN"] = "x"
        inheritable = os.open("/dev/null", os.O_RDONLY)
        os.set_inheritable(inheritable, True)
        found = boxes.facts(box.run([str(public["inside"])]))
        assert [line.split()[0] for line in found["fd"]] == ["0", "1", "2"]
        names = {line.partition("=")[0]: line.partition("=")[2] for line in found["env"]}
        assert set(names) == {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "GIT_CONFIG_NOSYSTEM"}
        assert names["HOME"].endswith("/scratch/home") and names["TMPDIR"].endswith("/scratch/tmp")
        assert not {"handled", "blocked"} & set(found)
        assert (found["no_new_privs"], found["umask"], found["tty"]) == (["1"], ["022"], [str(errno.EACCES)])
        assert {found[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}

    with_box(work)


def test_files_stdin_and_collect(with_box: Try) -> None:
    def work(box: Sandbox) -> None:
        files = {"a/b": b"placed", "run.sh": b"#!/bin/sh\ncat a/b - > out; mkdir c; echo made > c/d\n"}
        result = box.run(["./run.sh"], files=files, stdin=b" and read", collect=["out", "c/*"])
        assert result.ok, result
        assert result.files == {"out": b"placed and read", "c/d": b"made\n"}
        assert box.run(sh("cat $HOME/x $TMPDIR/x a/b || exit 7")).exit_code == 7  # nothing of the run before
        assert own(box, "pwd").strip().endswith("/workspace")
        assert box.run(["/bin/cat", "/dev/stdin"], stdin=b"reopened").stdout == b"reopened"
        assert own(box, "echo out > /dev/stdout") == "out\n"

    with_box(work)


def test_a_workspace_of_the_hosts_is_where_it_is(with_box: Try, secret: Path) -> None:
    def work(box: Sandbox) -> None:
        result = box.run(sh("pwd; cat file; echo more >> file; chmod 640 file; mv file moved"), workspace=secret)
        assert (result.text, result.stderr) == (f"{secret}\nsecret", b"")
        assert box.run(sh(f"cat {secret}/moved || exit 7")).exit_code == 7  # the next run has it not

    with_box(work)
    assert (secret / "moved").read_text() == "secretmore\n"


def test_a_failed_start_says_why_and_leaves_nothing(with_box: Try) -> None:
    def work(box: Sandbox) -> None:
        def failed(*argv: str, **more: object) -> str:
            with pytest.raises(Exception) as caught:
                box.run(list(argv), **more)  # type: ignore[arg-type]
            return str(caught.value)

        assert "/no/such/program" in failed("/no/such/program")
        assert failed("/bin/true", cwd="/no/such/directory")
        assert box.run(["/bin/true"]).ok

    with_box(work)
    assert left(boxes.PLAIN_USER) == []


PROGRAMS = {
    "git": "git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f && git add f"
    " && git commit -qm m && git log --oneline | wc -l",
    "gcc": "echo 'int main(void) { return 0; }' > m.c && gcc -pipe -o m m.c && ./m && echo 1",
    "make": "printf 'all: a\\na:\\n\\techo 1 > a\\n' > Makefile && make -s && cat a",
    "tar": "mkdir d && echo 1 > d/f && tar cf t.tar d && rm -r d && tar xpf t.tar && cat d/f",
    "node": "node -e 'require(`fs`).chmodSync(`.`, 0o755); console.log(1)'",
    "java": "java -XshowSettings:none -version && echo 1",
    "python3": "python3 -c 'import asyncio, tempfile, shutil; d = tempfile.mkdtemp(); open(d + `f`, chr(119));"
    " shutil.copy2(d + `f`, chr(103)); print(1)'".replace("`f`", "chr(47) + chr(102)"),
}


def test_ordinary_programs_run(with_box: Try) -> None:
    def work(box: Sandbox) -> None:
        for program, script in PROGRAMS.items():
            if shutil.which(program):
                result: Result = box.run(sh(script))
                assert result.ok and result.text.strip() == "1", (program, result.exit_code, result.text, result.stderr)

    with_box(work)


def test_root_without_namespaces_is_no_more_than_anybody(public: Guests, secret: Path) -> None:
    """The uid is root's; capabilities it has none."""

    def work() -> None:
        with Sandbox(without_namespaces.policy(public)) as box:
            tries = "cat /etc/shadow || kill -0 1 || chmod 777 /etc/hosts || mount -t tmpfs x . || (echo x > /etc/made)"
            result = box.run(sh(f"{tries} || id -u"))
            assert (result.enforcement.rung, result.text) == (Rung.LANDLOCK, "0\n")
            found = boxes.facts(box.run([str(public["inside"])]))
            assert {found[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
            assert box.run(sh(f"cat {secret}/file || exit 7")).exit_code == 7
            tree = box.run(sh("setsid sleep 60 & setsid setsid -f sleep 60; exit 3"))
            assert (tree.exit_code, tree.killed_processes) == (3, 2)

    without_namespaces.in_roots_host(public, work)
    assert left(0) == []
