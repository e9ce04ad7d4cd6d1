"""Scripts for test_warm_semantics.py: processes, signals, modules. They are run warm and cold."""

from __future__ import annotations

SCRIPTS = {
    "fork": """
        import os, sys
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print("child", os.getppid() != 0)
            sys.exit(3)
        print(os.waitpid(child, 0)[1])
        """,
    "subprocess": """
        import subprocess, sys
        print(subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True, check=True).stdout)
        code = "import sys; print(sys.flags.isolated, sys.argv)"
        print(subprocess.run([sys.executable, "-c", code, "a"], capture_output=True, text=True).stdout)
        print(subprocess.run(["/bin/sh", "-c", "kill -9 $$"]).returncode)
        """,
    "multiprocessing fork": """
        import multiprocessing
        def work(x):
            return x * x
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, [1, 2, 3]))
        """,
    "multiprocessing spawn": """
        import multiprocessing
        def work(queue):
            queue.put(__name__)
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.SimpleQueue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            process.join()
            print(queue.get(), process.exitcode)
        """,
    "multiprocessing forkserver": """
        import multiprocessing
        def work(pipe):
            pipe.send("worked")
        if __name__ == "__main__":
            context = multiprocessing.get_context("forkserver")
            here, there = context.Pipe()
            process = context.Process(target=work, args=(there,))
            process.start()
            process.join()
            print(here.recv(), process.exitcode)
        """,
    "asyncio": """
        import asyncio
        async def main():
            await asyncio.sleep(0)
            process = await asyncio.create_subprocess_exec("/bin/echo", "x", stdout=-1)
            print((await process.communicate())[0])
        asyncio.run(main())
        """,
    "signals": """
        import signal
        for one in sorted(signal.valid_signals()):
            print(one, signal.getsignal(one))
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))
        def caught(number, frame):
            print("caught", number, frame.f_code.co_name)
        signal.signal(signal.SIGALRM, caught)
        signal.alarm(1)
        signal.pause()
        """,
    "environment": """
        import os, subprocess
        print(dict(os.environ), os.environb == {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()})
        print(subprocess.run(["/usr/bin/env"], capture_output=True).stdout, os.getenv("OMP_NUM_THREADS"))
        os.environ["NEW"] = "x"
        del os.environ["HOME"]
        print(subprocess.run(["/usr/bin/env"], capture_output=True).stdout)
        """,
    "process": """
        import os, resource
        print(os.getcwd(), os.getpid(), os.getppid(), os.getuid(), os.getgid(), os.getgroups(), os.getpgrp(), os.getsid(0))
        print([resource.getrlimit(n) for n in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)])
        print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/task")), os.umask(0))
        print(sorted(os.listdir("/workspace")), os.nice(0), os.sched_getscheduler(0))
        """,
    "recursion": """
        import sys
        print(sys.getrecursionlimit())
        def down(n):
            return down(n + 1)
        try:
            down(0)
        except RecursionError as error:
            print(error)
        """,
    "garbage": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks)",
    "warnings": "import warnings; warnings.warn('x'); warnings.warn('y', DeprecationWarning)",
    "logging": """
        import logging
        logging.warning("x")
        logging.basicConfig(format="%(process)d %(name)s %(message)s %(filename)s:%(lineno)d %(threadName)s")
        logging.error("y")
        print(0 <= logging.makeLogRecord({}).relativeCreated < 5000)
        """,
    "pickle of main": """
        import pickle
        class Thing:
            pass
        print(pickle.loads(pickle.dumps(Thing())).__class__ is Thing)
        """,
    "dataclass and inspect": """
        import dataclasses, inspect
        @dataclasses.dataclass
        class Point:
            x: "int" = 0
        print(Point(3), inspect.getsource(Point), inspect.stack()[0].code_context)
        """,
    "typing": """
        import typing
        class A:
            b: "A"
        print(typing.get_type_hints(A))
        """,
    "imports from the workspace": """
        import sys
        try:
            import helper
        except ImportError as error:
            print(error)
        sys.path.insert(0, "/workspace")
        import helper
        print(helper.value, helper.__file__)
        """,
    "ctypes": "import ctypes; print(ctypes.sizeof(ctypes.c_long), ctypes.pythonapi.Py_IsInitialized())",
    "unraisable": """
        import sys
        sys.unraisablehook = lambda found: print("unraisable", found.exc_type)
        class Thing:
            def __del__(self):
                1 / 0
        Thing()
        kept = Thing()
        """,
    "faulthandler": "import faulthandler; print(faulthandler.is_enabled())",
    "tracing": """
        import sys
        print(sys.gettrace(), sys.getprofile(), sys.getswitchinterval(), sys.getdlopenflags())
        calls = []
        def trace(frame, event, argument):
            calls.append((frame.f_code.co_name, event))
        sys.settrace(trace)
        (lambda: 1)()
        sys.settrace(None)
        print(calls)
        """,
    "time zone": "import time; print(time.tzname, time.timezone, time.strftime('%z', time.localtime(0)))",
    "clocks": "import time; print(time.process_time() < 1, time.thread_time() < 1)",
    "locale": """
        import locale, sys
        print(locale.setlocale(locale.LC_CTYPE), locale.getpreferredencoding(), sys.getfilesystemencoding())
        """,
    "last exception": """
        import sys
        print([n for n in vars(sys) if n.startswith("last")], hasattr(sys, "ps1"), hasattr(sys, "ps2"))
        """,
    "exec": "import os; os.execv('/bin/echo', ['echo', 'other'])",
    "site": "import sys; print('site' in sys.modules, exit, copyright is not None, sys.modules['site'].ENABLE_USER_SITE)",
    "interpreter state": """
        import sys
        print(sys.getfilesystemencodeerrors(), sys.is_finalizing(), sys.hash_info, sys.float_repr_style, sys.maxsize)
        """,
}
