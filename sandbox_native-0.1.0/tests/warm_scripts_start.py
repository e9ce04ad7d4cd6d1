"""Scripts for test_warm_semantics.py: what a script finds when it starts, and its errors. They are run warm and cold."""

from __future__ import annotations

SCRIPTS = {
    "nothing": "",
    "main names": """
        import sys
        print(sorted(globals()), __name__, __file__, __spec__, __package__, __doc__, __cached__, __builtins__)
        print(type(__loader__).__name__, __loader__.name, __loader__.path, sys.modules["__main__"].__dict__ is globals())
        """,
    "order of main's names": "print(list(globals()))",
    "docstring": '''
        """What it is."""
        print(__doc__)
        ''',
    "annotations": """
        x: int = 3
        print(globals().get("__annotations__"))
        """,
    "main as a module": """
        import __main__
        x = 3
        print(__main__.x, __main__)
        """,
    "isolation": """
        import sys
        print(sys.flags, sys.path, sys.argv, getattr(sys, "orig_argv", None), sys.warnoptions, sys._xoptions)
        print(sys.dont_write_bytecode, sys.meta_path, sys.path_hooks, sys.executable, sys.prefix)
        """,
    "attributes of sys": "import sys; print(sorted(name for name in vars(sys) if name not in ('_git',)))",
    "no frame beneath": """
        import sys, traceback
        print(sys._getframe().f_back, sys.exc_info())
        traceback.print_stack()
        def f():
            raise ValueError("deep")
        try:
            f()
        except ValueError:
            traceback.print_exc()
        """,
    "streams": """
        import sys
        for name in ("stdin", "stdout", "stderr"):
            one = getattr(sys, name)
            assert one is getattr(sys, "__%s__" % name)
            print(one, one.encoding, one.errors, one.newlines, one.line_buffering, one.write_through, one.buffer, one.buffer.raw)
            print(one.isatty(), one.fileno(), one.mode, one.name, one.readable(), one.writable(), one.seekable(), one.closed)
        """,
    "stdin": """
        import sys
        print(sys.stdin.readline(), input(), sys.stdin.buffer.read())
        """,
    "unhandled": """
        def f(x):
            return 1 / x
        f(0)
        """,
    "unhandled chain": """
        try:
            {}["a"]
        except KeyError as error:
            raise RuntimeError("second") from error
        """,
    "unhandled with a hook": """
        import sys
        def hook(kind, value, trace):
            print(kind, value, trace.tb_lineno)
        sys.excepthook = hook
        raise OSError(3, "x")
        """,
    "a hook that fails": """
        import sys
        def hook(kind, value, trace):
            1 / 0
        sys.excepthook = hook
        raise OSError(3, "x")
        """,
    "syntax error": "print(1)\nif:\n",
    "null in the source": "print(1)\n\0\n",
    "bad encoding": "# coding: nonsense\n",
    "latin": "# coding: latin-1\nprint(ascii('\u00e9'))\n",
    "unicode": "print('\u00e9\u20ac\U0001f600')",
    "surrogates out": "print(ascii('\\udc80')); import sys; sys.stdout.buffer.write(b'\\xff\\n')",
    "threads at the end": """
        import threading
        go = threading.Event()
        def work():
            go.wait()
            print("worked")
        threading.Thread(target=work).start()
        threading.Thread(target=go.wait, daemon=True).start()
        import atexit
        atexit.register(print, "atexit")
        print("main", threading.active_count(), threading.main_thread().name)
        print(threading.main_thread() is threading.current_thread())
        go.set()
        """,
    "a thread that fails": """
        import threading
        thread = threading.Thread(target=lambda: 1 / 0, name="t")
        thread.start(); thread.join()
        """,
    "daemon threads": """
        import threading, time
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        print("main")
        """,
    "thread ids": """
        import threading, os
        print(threading.get_native_id() == os.getpid(), threading.main_thread().native_id == os.getpid())
        print(threading.get_ident() == threading.main_thread().ident)
        """,
    "pool": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(2) as pool:
            print(list(pool.map(abs, [-1, -2])))
        """,
}
