"""What a test's text says of names: which it reads, which it sets itself. Pure; in the examiner's box, and in one process with
the program."""

from __future__ import annotations

import ast
import opcode
import symtable
import types
from collections.abc import Iterator

_STORE_NAME, _STORE_GLOBAL, _EXTENDED = (opcode.opmap[name] for name in ("STORE_NAME", "STORE_GLOBAL", "EXTENDED_ARG"))


def read(code: types.CodeType) -> Iterator[str]:
    """Global names that code may read; attributes come along."""
    for one in _all(code):
        yield from one.co_names


def stored(code: types.CodeType) -> Iterator[str]:
    """Global names that a module's code may set, wherever and by whatever statement; `import *` apart."""
    for one in _all(code):
        wanted = (_STORE_NAME, _STORE_GLOBAL) if one is code else (_STORE_GLOBAL,)  # the others set those of a class
        if not any(operation in one.co_code[::2] for operation in wanted):
            continue
        instructions, high = iter(one.co_code), 0
        for operation in instructions:
            argument = next(instructions)
            if operation in wanted:
                yield one.co_names[high | argument]
            high = (high | argument) << 8 if operation == _EXTENDED else 0


def _all(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all(constant)


def is_read_by(text: str, name: str) -> bool:
    """Whether a module of that text reads its global name, anywhere."""
    tables = [symtable.symtable(text, "test", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if name in table.get_identifiers():
            symbol = table.lookup(name)
            if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
                return True
    return False


def is_wrapped(text: str, name: str) -> bool:
    """Whether a module that sets the name reads it before, as in `solve = timed(solve)`: it means another's, then."""
    for statement in ast.parse(text).body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None and is_read(statement.value, name):
            return True
        if name in stored(compile(ast.Module([statement], []), "test", "exec")):
            return False
        later = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if not later and is_read(statement, name):
            return True
    return False


def is_read(tree: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name and type(part.ctx) is ast.Load for part in ast.walk(tree))
