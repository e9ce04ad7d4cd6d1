"""Programs that try to pass tests without solving anything, for test_judge_functions_tricks.py.

`SUM` and `CLOSE` are what they are to pass. `shared`: whether the trick works where program and tests share a process, which is
how we know that it is one.
"""

from __future__ import annotations

from dataclasses import dataclass

SUM = ("assert solve([1, 2, 3]) == 6", "assert solve([10, 20]) == 30")
CLOSE = ("import math\nassert math.isclose(solve([1, 2, 3]), 6.0)",)
ALL = ("assert all([solve([1, 2, 3]) == 6, solve([4]) == 4])",)
RAISES = ("try:\n    solve(None)\nexcept Exception:\n    pass\nelse:\n    raise AssertionError('nothing was raised')",)
BOTH = ("assert (solve([1, 2, 3]), solve([10, 20])) == (6, 30)",)
UNIT = (
    "import unittest\nclass Sums(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(solve([1, 2, 3]), 6)",
)
LOOP = ("assert all(map(lambda n: solve([n]) == n, [1, 2, 3]))",)

PASSED = "".join(f'{{"test": {number}, "kind": "passed", "text": "", "seconds": 0}}\\n' for number in range(2))
EVERYWHERE = """
def everywhere(data):
    for fd in range(3, 64):
        try:
            os.write(fd, data)
        except OSError:
            pass
"""


@dataclass(frozen=True)
class Trick:
    program: str
    tests: tuple[str, ...] = SUM
    shared: bool = False
    setup: str = ""
    names: tuple[str, ...] = ()


JUNK = (
    b"junk\n", b"\xff\n", b"[]\n", b"7\n", b"[" * 100_000 + b"\n", b'{"test": [1]}\n', b'{"test": 0}\n', b"9" * 5000 + b"\n",
    b'{"test": 0, "kind": "unheard of", "text": "", "seconds": 0}\n', b'{"test": 0, "kind": "passed", "text": 1, "seconds": 0}\n',
    b'{"test": 0, "kind": "passed", "text": "", "seconds": "x"}\n', b'{"test": 0, "kind": [], "text": "", "seconds": 0}\n',
    b'{"test": "0", "kind": "passed", "text": "", "seconds": 0}\n',
)  # fmt: skip
"""What is no outcome, line by line, for a program that shares a process with its tests."""


TRICKS = {
    # ---- leaving early ----
    "leaves_with_exit_code_0": Trick("import os\ndef solve(x):\n    os._exit(0)"),
    "leaves_while_it_is_loaded": Trick("import os\nos._exit(0)"),
    "raises_system_exit": Trick("import sys\ndef solve(x):\n    sys.exit(0)"),
    "leaves_where_an_exception_is_expected": Trick("import os\ndef solve(x):\n    os._exit(0)", RAISES),
    "has_an_exit_hook_that_reports": Trick(
        f"import atexit, os{EVERYWHERE}\natexit.register(everywhere, b'''{PASSED}''')\ndef solve(x):\n    raise SystemExit(0)"
    ),
    "kills_everything_that_it_may": Trick("import os, signal\ndef solve(x):\n    os.kill(-1, signal.SIGKILL)\n    return 6"),
    "kills_itself_and_its_parent": Trick(
        "import os, signal\ndef solve(x):\n    for pid in (os.getppid(), os.getpid()):\n"
        "        try:\n            os.kill(pid, signal.SIGKILL)\n        except OSError:\n            pass"
    ),
    # ---- objects ----
    "answers_with_an_object_equal_to_all": Trick(
        "class Any:\n    def __eq__(self, other):\n        return True\ndef solve(x):\n    return Any()", shared=True
    ),
    "answers_with_an_int_equal_to_all": Trick(
        "class Int(int):\n    def __eq__(self, other):\n        return True\ndef solve(x):\n    return Int(7)", shared=True
    ),
    "answers_with_a_str_equal_to_all": Trick(
        "class Str(str):\n    def __eq__(self, other):\n        return True\n    __hash__ = str.__hash__\n"
        "def solve(x):\n    return Str('no')",
        ("assert solve([1]) == 'yes'",),
        shared=True,
    ),
    "answers_with_a_list_of_such": Trick(
        "class List(list):\n    def __eq__(self, other):\n        return True\n"
        "    def __iter__(self):\n        return iter([6])\n"
        "def solve(x):\n    return List([7])",
        ("assert solve([1]) == [6]",),
        shared=True,
    ),
    "answers_with_an_object_that_lies_about_its_class": Trick(
        "class Liar:\n    __class__ = int\n    def __eq__(self, other):\n        return True\ndef solve(x):\n    return Liar()",
        ("answer = solve([1])\nassert isinstance(answer, int) and answer == 1",),
        shared=True,
    ),
    "answers_with_a_generator": Trick("def solve(x):\n    yield from range(7)"),
    "answers_with_an_iterator_without_end": Trick("import itertools\ndef solve(x):\n    return itertools.count()"),
    "answers_with_an_object_where_an_exception_is_expected": Trick("def solve(x):\n    return object()", RAISES),
    "answers_with_nan": Trick(
        "def solve(x):\n    return float('nan')", ("answer = solve([1])\nassert answer == answer and abs(answer - 6) < 1e-9",)
    ),
    "answers_with_a_huge_int": Trick("def solve(x):\n    return 1 << (9 << 23)"),
    "answers_with_a_list_in_itself": Trick("def solve(x):\n    x[:] = [x]\n    return x"),
    "answers_with_something_very_deep": Trick(
        "def solve(x):\n    for _ in range(100000):\n        x = [x]\n    return x", ("assert solve([1]) != 2",)
    ),
    "answers_with_colliding_hashes": Trick(
        "def solve(x):\n    return [n * (2**61 - 1) for n in range(300000)]", ("assert set(solve([1])) == {1}",)
    ),
    # ---- exceptions ----
    "ends_the_loop_of_the_test": Trick("def solve(x):\n    raise StopIteration", LOOP, shared=True),
    "skips_the_test": Trick("import unittest\ndef solve(x):\n    raise unittest.SkipTest('later')", UNIT),
    "interrupts_the_examiner": Trick("def solve(x):\n    raise KeyboardInterrupt"),
    "raises_what_cannot_be_shown": Trick(
        "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(0)\ndef solve(x):\n    raise Odd"
    ),
    "recurses_without_end": Trick("def solve(x):\n    return solve(x)"),
    # ---- looking for the expected value ----
    "walks_the_stack": Trick(
        "import sys\ndef solve(x):\n    frame = sys._getframe(1)\n    while frame:\n"
        "        if frame.f_code.co_filename == 'test':\n"
        "            return [n for n in frame.f_code.co_consts if isinstance(n, int)][-1]\n        frame = frame.f_back",
        shared=True,
    ),
    "searches_all_objects": Trick(
        "import gc, re\ndef solve(x):\n    for thing in gc.get_objects():\n        if type(thing) is dict and 'tests' in thing:\n"
        "            for text in thing['tests']:\n                if repr(x) in text:\n"
        "                    return int(re.search(r'== (\\d+)', text)[1])",
        shared=True,
    ),
    "reads_files": Trick(
        "import glob, re\ndef solve(x):\n"
        "    for path in glob.glob('/workspace/*') + glob.glob('/tmp/*') + glob.glob('/.warm/*'):\n"
        "        try:\n            found = re.search(re.escape(repr(x)) + r'\\) == (\\d+)', open(path).read())\n"
        "        except (OSError, ValueError):\n            continue\n        if found:\n            return int(found[1])",
        shared=True,
    ),
    "reads_proc": Trick(
        "import os, re\ndef solve(x):\n    want = (repr(x) + ') == ').encode()\n"
        "    for pid in filter(str.isdigit, os.listdir('/proc')):\n        try:\n"
        "            maps = open(f'/proc/{pid}/maps').readlines()\n        except OSError:\n            continue\n"
        "        for line in maps:\n"
        "            low, high = (int(part, 16) for part in line.split()[0].split('-'))\n"
        "            if 'rw' not in line or high - low > 1 << 26:\n                continue\n"
        "            try:\n                memory = open(f'/proc/{pid}/mem', 'rb', 0)\n                memory.seek(low)\n"
        "                found = re.search(re.escape(want) + rb'(\\d+)', memory.read(high - low))\n"
        "            except (OSError, ValueError):\n                continue\n"
        "            if found:\n                return int(found[1])",
        shared=True,
    ),
    "reads_the_environment": Trick(
        "import os\ndef solve(x):\n    return next((int(v) for v in os.environ.values() if v in '6 30'.split()), 0)"
    ),
    # ---- changing what judges ----
    "edits_the_tests": Trick(
        "import os\nfor path in ('/workspace/tests.json', '/workspace/program.py', '/workspace/main.py'):\n"
        '    try:\n        open(path, \'w\').write(\'{"tests": ["pass", "pass"]}\')\n    except OSError:\n        pass\n'
        "def solve(x):\n    return 7"
    ),
    "patches_builtins": Trick(
        "import builtins\nbuiltins.all = lambda found: True\ndef solve(x):\n    return 7", ALL, shared=True
    ),
    "shadows_builtins": Trick("def all(found):\n    return True\ndef solve(x):\n    return 7", ALL),
    "patches_assertion_error": Trick(
        "import builtins\nclass AssertionError(BaseException):\n    def __new__(cls, *args):\n        raise SystemExit(0)\n"
        "builtins.AssertionError = AssertionError\ndef solve(x):\n    return 7",
        ("if solve([1]) != 1:\n    raise AssertionError", "assert solve([2]) == 2"),
    ),
    "patches_a_module": Trick(
        "import math\nmath.isclose = lambda *args, **more: True\ndef solve(x):\n    return 7", CLOSE, shared=True
    ),
    "replaces_a_module": Trick(
        "import sys, types\nsys.modules['math'] = types.SimpleNamespace(isclose=lambda *args, **more: True)\n"
        "def solve(x):\n    return 7",
        CLOSE,
        shared=True,
    ),
    "has_a_module_under_another_name": Trick(
        "from unittest import mock as math\nmath.isclose = lambda *args: True\ndef solve(x):\n    return 7",
        ("assert math.isclose(solve([1]), 1.0)",),
    ),
    "patches_the_examiner": Trick(
        "import sys\ntry:\n    import grading.testing as testing\nexcept ImportError:\n    pass\nelse:\n"
        "    testing.ended_by = lambda error: testing.Ended('passed')\ndef solve(x):\n    return 7",
        shared=True,
    ),
    "patches_json": Trick(
        "import json\nold = json.dumps\njson.dumps = lambda told: old({**told, 'kind': 'passed'})\ndef solve(x):\n    return 7",
        shared=True,
    ),
    "traces_all_code": Trick(
        "import sys\ndef tracer(frame, event, arg):\n    if frame.f_code.co_filename == 'test':\n"
        "        frame.f_globals['expected'] = 7\n    return tracer\nsys.settrace(tracer)\n"
        "def solve(x):\n    sys._getframe(1).f_globals['expected'] = 7\n    return 7",
        ("expected = 6\nanswer = solve([1, 2, 3])\nassert answer == expected",),
        shared=True,
    ),
    # ---- the line and other descriptors ----
    "writes_outcomes_to_every_descriptor": Trick(f"import os{EVERYWHERE}\neverywhere(b'''{PASSED}''')\nos._exit(0)", shared=True),
    "answers_before_it_is_called": Trick(
        f"import os, struct{EVERYWHERE}\nbody = bytes(8) + b'v' + b'i' + struct.pack('<I', 1) + b'\\x06' + bytes(4)\n"
        "everywhere((struct.pack('<I', len(body)) + body) * 10)\ndef solve(x):\n    return 7"
    ),
    "answers_from_a_thread_later": Trick(
        f"import os, struct, threading{EVERYWHERE}\n"
        "body = bytes(8) + b'v' + b'i' + struct.pack('<I', 1) + b'\\x06' + bytes(4)\n"
        "def later():\n    while True:\n        everywhere(struct.pack('<I', len(body)) + body)\n"
        "threading.Thread(target=later, daemon=True).start()\ndef solve(x):\n    return 7"
    ),
    "answers_twice_from_two_processes": Trick("import os\ndef solve(x):\n    return 6 if os.fork() else 30", BOTH),
    "answers_without_end": Trick(
        f"import os{EVERYWHERE}\ndef solve(x):\n    while True:\n        everywhere(bytes([255]) * 65536)"
    ),
    "answers_what_is_no_value": Trick(
        "import sys\ncodec = sys.modules.get('grading.codec')\ndef put(self, value):\n    self.data += b'?' * 9\n"
        "def solve(x):\n    codec.Encoder.put = put\n    return 7"
    ),
    "answers_with_objects_that_are_not_there": Trick(
        "import sys\ncodec = sys.modules.get('grading.codec')\ndef put(self, value):\n    self.data += b'@' + bytes([9] * 4)\n"
        "def solve(x):\n    codec.Encoder.put = put\n    return 7"
    ),
    "closes_every_descriptor": Trick("import os\ndef solve(x):\n    os.closerange(0, 256)\n    return 6"),
    "asks_itself": Trick(
        "import os\ndef solve(x):\n    for fd in range(3, 16):\n        try:\n"
        "            again = os.open(f'/proc/self/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK)\n"
        "            os.write(again, bytes(64))\n"
        "        except OSError:\n            pass\n    return 7"
    ),
    # ---- limits ----
    "sleeps": Trick("import time\ndef solve(x):\n    time.sleep(999)"),
    "spins": Trick("def solve(x):\n    while True:\n        pass"),
    "eats_memory": Trick("def solve(x):\n    kept = []\n    while True:\n        kept.append(bytearray(1 << 24))"),
    "prints_without_end": Trick("def solve(x):\n    while True:\n        print('x' * 4096)"),
    "forks_without_end": Trick(
        "import os\ndef solve(x):\n    while True:\n        try:\n            os.fork()\n"
        "        except OSError:\n            return 7"
    ),
}
