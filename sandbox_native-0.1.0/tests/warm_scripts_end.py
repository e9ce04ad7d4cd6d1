"""Scripts for test_warm_semantics.py: how a script ends, and what happens then. They are run warm and cold."""

from __future__ import annotations

SCRIPTS = {
    "exit": "import sys; sys.exit()",
    "exit 0": "import sys; sys.exit(0)",
    "exit 3": "import sys; sys.exit(3)",
    "exit 259": "import sys; sys.exit(259)",
    "exit -1": "import sys; sys.exit(-1)",
    "exit large": "import sys; sys.exit(1 << 31)",
    "exit True": "import sys; sys.exit(True)",
    "exit text": "import sys; sys.exit('why')",
    "exit tuple": "import sys; sys.exit((1, 2))",
    "exit from a function": "def f():\n    raise SystemExit(5)\nf()\n",
    "exit subclass": """
        class Mine(SystemExit):
            code = 9
        raise Mine
        """,
    "quit": "quit(4)",
    "interrupt": "raise KeyboardInterrupt",
    "interrupt by signal": "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(5)",
    "interrupt subclass": "class Mine(KeyboardInterrupt): pass\nraise Mine('x')",
    "abort": "import os; os.abort()",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit": "import os, sys; sys.stdout.write('lost'); os._exit(7)",
    "atexit": """
        import atexit, sys
        atexit.register(print, "first")
        atexit.register(print, "second", file=sys.stderr)
        @atexit.register
        def bad():
            raise ValueError("at exit")
        print("main")
        """,
    "atexit and an error": "import atexit; atexit.register(print, 'end'); 1 / 0",
    "atexit and exit": "import atexit, sys; atexit.register(print, 'end'); sys.exit(3)",
    "exit in atexit": """
        import atexit, sys
        atexit.register(sys.exit, 4)
        """,
    "atexit cleared": "import atexit; atexit._clear(); print('x')",
    "names after the end": """
        import atexit, sys
        atexit.register(lambda: print("__file__" in globals(), "atexit" in globals(), __name__))
        """,
    "names after sys.exit": """
        import atexit, sys
        atexit.register(lambda: print("__file__" in globals()))
        sys.exit(2)
        """,
    "del at the end": """
        import sys
        class Thing:
            def __init__(self, name):
                self.name = name
            def __del__(self):
                print("del", self.name, sys is not None, __name__)
        a = Thing("a")
        _b = Thing("b")
        cycle = Thing("cycle")
        cycle.me = cycle
        def f():
            local = Thing("local")
        f()
        """,
    "del with an error": """
        class Thing:
            def __del__(self):
                1 / 0
        a = Thing()
        raise ValueError("main")
        """,
    "del in modules": """
        import sys, types, os, builtins, json
        class Thing:
            def __init__(self, name):
                self.name = name
            def __del__(self, write=os.write):
                write(1, ("del %s\\n" % self.name).encode())
        mine = types.ModuleType("mine")
        sys.modules["mine"] = mine
        mine.thing = Thing("own")
        sys.thing = Thing("sys")
        builtins.thing = Thing("builtins")
        """,
    "del in a module of the standard library": """
        import os, json
        class Thing:
            def __del__(self, write=os.write):
                write(1, b"del\\n")
        json.thing = Thing()
        """,
    "an open file": """
        import os
        left = open("/workspace/out.txt", "w")
        left.write("text")
        class Look:
            def __del__(self, read=open, show=print):
                show("here")
        """,
    "a generator that is not finished": """
        def numbers():
            try:
                yield 1
            finally:
                print("finally")
        left = numbers()
        next(left)
        """,
    "weak references and finalizers": """
        import weakref
        class Thing:
            pass
        thing = Thing()
        weakref.finalize(thing, print, "finalized")
        print("main")
        """,
    "output of C": """
        import ctypes
        ctypes.CDLL(None).puts(b"from C")
        print("from Python")
        """,
    "closed stdout": "import sys; sys.stdout.close()",
    "stdout that cannot be flushed": """
        import os, sys
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(writing)
        os.close(reading)
        print("nobody reads")
        """,
    "stdout replaced": """
        import sys, io
        sys.stdout = io.TextIOWrapper(open("/dev/stderr", "wb"), encoding="utf-8")
        print("to stderr")
        """,
}
