"""A workspace with paths to protect, the guards of it, and what the guest of tests/probes/tampers.c was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from layers import READ_ONLY, WORKSPACE, Guard, Ran, engine, mounted, plan, running
from running import sh

from sandbox_native._native import lib
from sandbox_native.plan import Op

HOLD, READ, HIDE = 0, lib.SN_GUARD_RDONLY, lib.SN_GUARD_MASK


def repository(directory: Path) -> Path:
    made = directory / "work"
    (made / ".git" / "hooks").mkdir(parents=True)
    (made / ".git" / "hooks" / "sample").write_text("hook")
    (made / ".git" / "config").write_text("config")
    (made / ".bashrc").write_text("bashrc")
    (made / "other").mkdir()
    (made / "other" / "file").write_text("other")
    (made / "secret").mkdir()
    (made / "secret" / "key").write_text("key")
    (made / ".env").write_text("env")
    return made


GUARDS = (
    Guard(name=".git", flags=HOLD),
    Guard(name=".git/hooks", flags=READ),
    Guard(name=".git/config", flags=READ),
    Guard(name=".bashrc", flags=READ),
    Guard(name="secret", flags=HIDE),
    Guard(name=".env", flags=HIDE),
)


def program(content: bytes, directory: Path) -> Op:
    path = directory / "tampers"
    path.write_bytes(content)
    path.chmod(0o755)
    return Op(lib.SN_OP_BIND, "/tampers", READ_ONLY, source=str(path))


def attack(
    tampers: bytes, directory: Path, words: str, flags: int = 0, guards: Sequence[Guard] = GUARDS, template: Sequence[Op] = ()
) -> dict[str, int]:
    """What each try was answered: `verb path` -> errno. The guest stands in its workspace."""
    bind = program(tampers, directory)
    with ExitStack() as stack:
        used = stack.enter_context(engine(plan([bind, *template])))
        mount = stack.enter_context(mounted(used, directory / "work"))
        script = sh(f"cd {WORKSPACE} && exec /tampers {words}")
        ran = stack.enter_context(running(used, script, flags=flags, workspace=mount, guards=guards))
        assert (ran.exit_code, ran.stderr) == (0, "")
        assert bool(ran.held & lib.SN_HELD_GUARDS) == bool(guards)
        return answers(ran)


def answers(ran: Ran) -> dict[str, int]:
    pairs = (line.rsplit(" errno=", 1) for line in ran.lines)
    return {tried.strip(): int(error) for tried, error in pairs}


def expect(told: Mapping[str, int], error: int, *tried: str) -> None:
    assert {one: told[one] for one in tried} == dict.fromkeys(tried, error)
