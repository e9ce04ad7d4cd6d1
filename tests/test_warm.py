"""WarmPython: what it refuses, its receipts, what clones share and what they do not. Its end: test_warm_end.py; semantics:
test_warm_semantics.py."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from running import PYTHON
from warm import module, told

from sandbox_native import Limits, Policy, PolicyError, Sandbox, SetupError, Status, Writes
from sandbox_native.warm.python import WarmPython

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def warm() -> Iterator[WarmPython]:
    with WarmPython(python=PYTHON) as made:
        yield made


# ---- what is refused ----


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('broken')", "thing: ValueError: broken"),
        ("import nothing_of_that_name", "thing: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise SystemExit(3)", "thing: SystemExit: 3"),
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), name='pool', daemon=True).start()",
            "thing: leaves threads running (pool), which no clone would have; see allow_threads",
        ),
        ("import socket\nkept = socket.socket()", "thing: leaves socket:[] open, which no clone would have; see allow_open"),
        ("kept = open('/etc/passwd')", "thing: leaves /etc/passwd open, which no clone would have; see allow_open"),
    ],
)
def test_an_import_that_cannot_be_cloned_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    options = module(tmp_path, "thing", text)
    with pytest.raises(SetupError) as caught:
        WarmPython(**options)  # type: ignore[arg-type]
    assert caught.value.stage == "warm"
    assert "".join(part for part in caught.value.item if not part.isdigit() or "3" in said) == said


def test_what_the_caller_allows_is_cloned_without(tmp_path: Path) -> None:
    text = (
        "import threading, time\nfile = open('/etc/passwd')\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
    )
    options = module(tmp_path, "thing", text)
    script = (
        "import os, thing\nprint(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd'))[:3])\nthing.file.read()"
    )
    with WarmPython(allow_threads=["thing"], allow_open=["thing"], **options) as made:  # type: ignore[arg-type]
        result = made.run(script)
    assert (result.exit_code, result.text) == (1, "1 ['0', '1', '2']\n")
    assert b"Bad file descriptor" in result.stderr


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"imports": "json"}, "imports"),
        ({"imports": ["os; x"]}, "imports[0]"),
        ({"imports": ["json"], "allow_threads": ["jsn"]}, "allow_threads[0]"),
        ({"python": "/bin/true"}, "python"),
        ({"python": "/nowhere/python"}, "python"),
        ({"policy": Policy.strict(explain=True)}, "Policy.explain"),
    ],
)
def test_what_makes_no_sense_is_named(options: dict[str, object], field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        WarmPython(**options)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_script_that_is_none_is_named(warm: WarmPython, tmp_path: Path) -> None:
    for code in (3, tmp_path / "none.py", tmp_path):
        with pytest.raises(PolicyError, match="code="):
            warm.run(code)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="files="):
        warm.run("pass", files={"main.py": b""})
    (tmp_path / "job.py").write_text("print(__file__)")
    assert told(warm.run(tmp_path / "job.py")) == "/workspace/job.py"


# ---- the receipt ----


def test_the_receipt_is_that_of_a_run_and_says_that_it_is_a_clone(warm: WarmPython) -> None:
    with Sandbox(warm.policy) as cold:
        expected = cold.run([PYTHON, "-I", "-c", "pass"])
    result = warm.run("pass")
    lines = {layer.name: layer for layer in result.enforcement.layers}
    clone = lines.pop("warm")
    assert clone.held is True and clone.mechanism == "clone of a warm interpreter"
    assert "hash seed" in clone.detail and PYTHON in clone.detail
    net = "lo only"
    wanted = {layer.name: layer for layer in expected.enforcement.layers}
    assert {name: layer.held for name, layer in lines.items()} == {name: layer.held for name, layer in wanted.items()}
    assert lines["net"].detail.startswith(net)
    assert result.enforcement.rung is expected.enforcement.rung


# ---- where the script comes from ----


@pytest.mark.needs("workspace")
def test_with_a_workspace_the_script_is_elsewhere(warm: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    script = "import os\nprint(__file__, os.getcwd(), os.listdir('.'), '' in os.environ)\nopen('new', 'w').write('y')\n1 / 0"
    result = warm.run(script + "#" * 100_000, workspace=tmp_path)
    assert result.text == "/tmp/main.py /workspace ['data'] False\n"
    assert b'File "/tmp/main.py", line 4, in <module>\n    1 / 0' in result.stderr
    assert (tmp_path / "new").read_text() == "y"
    assert sorted(os.listdir(tmp_path)) == ["data", "new"]


@pytest.mark.needs("workspace", "changes")
def test_changes_are_committed(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with WarmPython(policy=Policy.strict(writes=Writes.COMMIT), python=PYTHON) as warm:
        result = warm.run("open('data', 'w').write('y'); open('new', 'w')", workspace=tmp_path)
        assert (result.status, (tmp_path / "data").read_text()) == (Status.OK, "y"), result.stderr
        kept = warm.run("open('data', 'w').write('z')", workspace=tmp_path, commit=False)
        assert kept.changes is not None and (tmp_path / "data").read_text() == "y"
        kept.changes.close()
        landlock = boxes.layer(result, "landlock")
        assert landlock.held is not False


def test_large_requests_and_files_come_through(warm: WarmPython) -> None:
    data = os.urandom(3 << 20)
    script = "import hashlib, sys\nprint(hashlib.sha256(open('data', 'rb').read()).hexdigest(), len(sys.argv[1]))"
    result = warm.run(script, ["x" * 200_000], files={"data": data}, limits=Limits(tmp_bytes=8 << 20))
    assert told(result) == f"{hashlib.sha256(data).hexdigest()} 200000"


def test_secrets_are_in_the_environment_and_nowhere_else(warm: WarmPython) -> None:
    script = "import os\nprint(os.environ['TOKEN'], b'TOKEN' in open('/proc/self/environ', 'rb').read())"
    result = warm.run(script, secrets={"TOKEN": "quite secret"})
    assert told(result) == "quite secret False"
    assert "quite secret" not in repr(result.enforcement)


# ---- what does not pass ----


def test_nothing_passes_from_run_to_run(warm: WarmPython) -> None:
    mark = "mark-of-the-first-run-" + os.urandom(8).hex()
    first = f"""
import os, json, sys, tempfile
json.passed = '{mark}'
sys.passed = {{'x': '{mark}'}}
os.environ['PASSED'] = '{mark}'
for place in ('/tmp', '/workspace', '/dev/shm', os.path.expanduser('~')):
    open(place + '/{mark}', 'w').write('{mark}')
open('/proc/self/comm', 'w').write('passed')
print('{mark}')
raise SystemExit('{mark}')
"""
    second = """
import os, sys
print(hasattr(sys, 'passed'), 'PASSED' in os.environ, os.listdir('/tmp'), os.listdir('.'), open('/proc/self/comm').read())
one, other = (word.encode() for word in sys.argv[1:])  # which stand apart in this memory
def holds(data):
    at = data.find(one)
    while at >= 0 and not data.startswith(other, at + len(one)):
        at = data.find(one, at + 1)
    return at >= 0
found = []
for line in open('/proc/self/maps'):
    span, access, *rest = line.split()
    if access[0] != 'r' or line.rstrip().endswith(('[vvar]', '[vsyscall]', '[vvar_vclock]')):
        continue
    start, end = (int(part, 16) for part in span.split('-'))
    with open('/proc/self/mem', 'rb', 0) as memory:
        memory.seek(start)
        if holds(memory.read(end - start)):
            found.append(line)
print(found)
"""
    seen = second.replace("print(found)", "print(holds(b'x' + one + one + other))")
    assert told(warm.run(seen, ["a", "b"])).endswith("True")
    for _ in range(4):
        ended = warm.run(first, [mark], env={"A": mark}, secrets={"SECRET": mark}, files={mark: mark.encode() * 9000})
        assert ended.exit_code == 1
    for _ in range(4):
        lines = told(warm.run(second, [mark[:20], mark[20:]])).splitlines()
        assert lines[0] == "False False [] ['main.py'] python3"
        assert lines[-1] == "[]"


def test_random_numbers_differ(tmp_path: Path) -> None:
    script = "import random, os, uuid, tempfile\nprint(random.random(), uuid.uuid4(), tempfile.mktemp(), os.urandom(4).hex())"
    with WarmPython(["random", "uuid", "tempfile", "multiprocessing"], python=PYTHON, prepared=3) as warm:
        rows = [told(warm.run(script)).split() for _ in range(8)]
    for column in zip(*rows, strict=True):
        assert len(set(column)) == len(rows)


def test_clones_share_address_layout_and_hash_seed_as_the_receipt_says(warm: WarmPython) -> None:
    script = "print(hash('x'), [line.split()[0] for line in open('/proc/self/maps') if 'python' in line][:3])"
    assert told(warm.run(script)) == told(warm.run(script))


def test_another_interpreter_a_virtual_environment(tmp_path: Path) -> None:
    options = module(tmp_path, "thing", "value = 7")
    with WarmPython(**options) as warm:  # type: ignore[arg-type]
        script = "import sys, thing\nprint(sys.prefix, sys.executable, thing.value, sys.prefix != sys.base_prefix)"
        assert told(warm.run(script)) == f"{tmp_path}/venv {tmp_path}/venv/bin/python 7 True"


def test_the_callers_own_interpreter_is_the_default() -> None:
    with WarmPython() as warm:
        assert told(warm.run("import sys; print(sys.executable)")) == sys.executable


@pytest.mark.needs("numpy")
def test_numpy_is_there_and_its_numbers_differ() -> None:
    script = "import sys\nassert 'numpy' in sys.modules\nimport numpy\nprint(numpy.arange(10).sum(), numpy.random.rand())"
    with WarmPython(["numpy"], python=PYTHON) as warm:
        rows = [told(warm.run(script)).split() for _ in range(6)]
        assert {row[0] for row in rows} == {"45"}
        assert len({row[1] for row in rows}) == 6
        dot = "import numpy\na = numpy.ones((500, 500))\nprint((a @ a)[0, 0], numpy.linalg.inv(numpy.eye(3))[0, 0])"
        assert told(warm.run(dot)) == "500.0 1.0"


def test_memory_of_a_clone_before_its_script_is_small(warm: WarmPython) -> None:
    script = "for line in open('/proc/self/smaps_rollup'):\n    if line.startswith('Private'): print(line.split()[1])"
    private = sum(map(int, told(warm.run(script)).split()))
    assert private <= 3072


# ---- modules of the caller's own, and a fixed seed ----


def test_modules_of_the_callers_own_are_imported_first_and_are_there_in_each_clone() -> None:
    files = {"tools/__init__.py": b"from . import more", "tools/more.py": b"value = 7", "json.py": b"mine = True"}
    script = "import json, sys, tools\nprint(json.mine, tools.more.value, any('modules' in path for path in sys.path))"
    with WarmPython(["tools", "json"], python=PYTHON, modules=files) as made:
        assert told(made.run(script)) == "True 7 False"


def test_a_deterministic_policy_fixes_the_seed_of_hashes() -> None:
    script = "import os, sys\nprint(hash('a'), os.environ['TZ'], '/.warm' in sys.path)"
    found = set()
    for _ in range(2):
        with WarmPython(policy=Policy.strict(deterministic=True), python=PYTHON) as made:
            found.add(told(made.run(script)))
    (only,) = found
    assert only.endswith(" UTC False")
