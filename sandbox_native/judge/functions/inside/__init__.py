"""What runs in the two boxes of a function-style grading: the examiner with the tests, and the server of the program's functions.

Both get this package as files, under the name `grading`; nothing else of ours is there. Any CPython from 3.8 on.
"""
