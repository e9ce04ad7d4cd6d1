"""Landlock below the mounts of a box: it holds where a mount does not, and ordinary programs do not notice it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import boxes
import pytest
from boxes import Guests
from capabilities import landlock_abi
from running import PYTHON, sh

from sandbox_native import Policy, Sandbox, Status, landlock, view
from sandbox_native._native import lib
from sandbox_native.plan import Op

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns"), pytest.mark.needs("landlock")]


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="landlock-") as name:
        made = Path(name)
        made.chmod(0o755)
        (made / "file").write_text("text")
        yield made


@pytest.fixture
def slip(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """The mount of a readable root is made as if it were a writable one."""
    made = view.template_ops

    def wrong(*given: object) -> list[Op]:
        ops = made(*given)  # type: ignore[arg-type]
        kept = lib.SN_OP_IDMAP if os.geteuid() == 0 else 0
        return [replace(op, flags=op.flags & ~lib.SN_OP_RDONLY | kept) if op.source == str(directory) else op for op in ops]

    monkeypatch.setattr(view, "template_ops", wrong)


WRITES = (
    "echo x >> /shown/file; true > /shown/file; touch /shown/new; mkdir /shown/d; rm -f /shown/file; mv /shown/file /shown/x;"
    "ln -s a /shown/l"
)


@pytest.mark.needs("idmap")
def test_a_mount_that_is_writable_by_mistake_is_still_read_only(slip: None, directory: Path) -> None:
    with Sandbox(Policy.strict(readable=[(str(directory), "/shown")])) as box:
        result = box.run(sh(f"{WRITES}; cat /shown/file; ls /shown"))
    assert (result.stdout, os.listdir(directory)) == (b"textfile\n", ["file"])
    assert b"Read-only" not in result.stderr and result.stderr.count(b"ermission denied") == 7


@pytest.mark.needs("idmap")
def test_without_it_that_mistake_would_be_one(slip: None, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "LAYER_ABI", 99)
    with Sandbox(Policy.strict(readable=[(str(directory), "/shown")])) as box:
        assert boxes.layer(box.run(sh("echo x > /shown/new")), "landlock").held is None
    assert sorted(os.listdir(directory)) == ["file", "new"]


@pytest.mark.needs("landlock_scopes")
def test_init_is_not_even_signalled(guest: Guests) -> None:
    with Sandbox(boxes.strict(guest)) as box:
        assert boxes.attempts(box, "kill 1 0 , kill 1 18 , kill 1 9") == {"kill": errno.EPERM}


def test_the_receipt_names_the_abi_and_light_has_none(guest: Guests) -> None:
    with Sandbox() as box:
        told = boxes.layer(box.run(["/bin/true"]), "landlock")
        assert told.held is True and f"ABI {landlock_abi()}" in told.detail
    with Sandbox(Policy.light()) as box:
        assert boxes.layer(box.run(["/bin/true"]), "landlock").held is None


def test_a_guest_may_narrow_itself_further(guest: Guests) -> None:
    """As sandboxes in guests do: a domain in ours."""
    code = """
import ctypes, struct
call = ctypes.CDLL(None, use_errno=True).syscall
ruleset = call(444, struct.pack('=Q', 2), 8, 0)
assert ruleset >= 0 and ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 and call(446, ruleset, 0) == 0
try: open('/tmp/x', 'w')
except PermissionError: print('narrowed')
"""
    with Sandbox() as box:
        assert box.run([PYTHON, "-c", code]).text == "narrowed\n"


ORDINARY = {
    "streams by name": "echo a > /dev/stdout; echo b > /dev/stderr; echo c >> /dev/fd/1; cat /dev/stdin; cat < /dev/null",
    "devices": "head -c 3 /dev/zero > /tmp/z; head -c 3 /dev/urandom > /dev/null; ! (echo x > /dev/full) 2> /dev/null",
    "fifo": "mkfifo p && (echo x > p &) && read x < p && [ $x = x ]",
    "moves between directories": "mkdir a b; touch a/f; mv a/f b/g; ln b/g a/h; ln -s b/g s; mv b a/b; [ -f a/b/g ]",
    "moves between file systems": "touch f && mv f /tmp/f && mv /tmp/f ~/f && cp ~/f . && rm -r ~/f f",
    "its own /proc": "echo name > /proc/self/comm; echo 500 > /proc/self/oom_score_adj; ls /proc/self/fd /proc/$$/task",
    "shared memory": f"{PYTHON} -c 'from multiprocessing import shared_memory as s; s.SharedMemory(None, True, 9).unlink()'",
    "executables of its own": "cp /bin/true t && ./t && cp /bin/true /tmp/t && /tmp/t && cp t ~/t && ~/t",
    "unnamed files": f"{PYTHON} -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\")'",
    "here documents": "cat <<X\nx\nX",
}


@pytest.mark.parametrize("what", ORDINARY)
def test_what_programs_do_works(what: str) -> None:
    with Sandbox() as box:
        result = box.run(sh(f"set -e; {ORDINARY[what]}"), stdin=b"in")
    assert result.ok, (result.stdout, result.stderr)


METHODS = """
import multiprocessing, sys
def double(x): return 2 * x
if __name__ == '__main__':
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool: print(sum(pool.map(double, range(10))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_pythons_pools_talk(method: str) -> None:
    with Sandbox() as box:
        result = box.run([PYTHON, "pool.py", method], files={"pool.py": METHODS.encode()})
    assert (result.status, result.text) == (Status.OK, "90\n"), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("program", ["git", "gcc", "node", "java"])
def test_large_programs_work(program: str, needs: Callable[[str], None]) -> None:
    needs(program)
    scripts = {
        "git": "git init -q r && cd r && git -c user.email=a@b -c user.name=n commit -qm m --allow-empty && git gc -q &&"
        " git log -1 | head -c 6",
        "gcc": "echo 'int main(void) { return 0; }' > m.c && gcc -pipe -g -o m m.c && ./m && gcc -c m.c && ar rc l.a m.o &&"
        " echo -n commit",
        "node": "node -e 'require(`child_process`).execSync(`true`); require(`fs`).writeFileSync(`f`, ``);"
        " process.stdout.write(`commit`)'",
        "java": "java -XshowSettings:none -version && echo -n commit",
    }
    with Sandbox() as box:
        result = box.run(sh(scripts[program]), workspace=None)
    assert result.text == "commit", (result.status, result.stdout, result.stderr)
