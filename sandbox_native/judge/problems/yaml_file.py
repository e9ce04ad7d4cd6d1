"""A YAML file of a package, read without trusting it: mappings, lists and texts, nothing else.

`load` gives every scalar as the text that stands there (None for an empty one): what is a number and what a word is for
fields.py to say, who knows what is asked for, so `2025-09`, `yes` and `1.10` stay what was written. Before anything is built the
events of the parser are counted: nesting, nodes with aliases expanded, tags.

Needs PyYAML (the extra `judge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sandbox_native.errors import UnsupportedError
from sandbox_native.judge.problems.errors import ProblemError

if TYPE_CHECKING:
    import yaml

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"
"""What a file can hold."""

_MOST_NODES: Final = 50_000
_MOST_LEVELS: Final = 24
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_CORE: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))


def load(text: str, file: str) -> Plain:
    """The content of `file`, whose text is `text`; None for an empty one. ProblemError names what is wrong and its line."""
    yaml = _library()
    try:
        _check_events(yaml.parse(text, Loader=yaml.BaseLoader), yaml, file)
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        raise ProblemError(
            f"it is not YAML: {error.problem or error.context}",
            file=file,
            field=f"line {line + 1}",
            value="".join(text.splitlines()[line : line + 1]),
            remedy="correct that line or the one before it",
        ) from None
    except yaml.YAMLError as error:
        raise ProblemError(f"it is not YAML: {error}", file=file, field="content", value=text, remedy="correct it") from None
    return None if node is None else _built(node, yaml, file)


def _library() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise UnsupportedError(
            "problem packages are described in YAML", ["the Python package PyYAML"], "pip install 'sandbox-native[judge]'"
        ) from None
    return yaml


def _check_events(events: Any, yaml: Any, file: str) -> None:
    """One pass over the parser's events, which takes no recursion and builds nothing."""
    nodes, levels = 0, 0
    sizes: dict[str, int] = {}  # of what an anchor names, aliases expanded
    begun: list[tuple[str | None, int]] = []
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in {anchor for anchor, _ in begun}:
                raise _too_much(file, event, "an alias stands inside of what it names")
            nodes += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            nodes, levels = nodes + 1, levels + 1
            begun.append((event.anchor, nodes - 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            levels -= 1
            if anchor:
                sizes[anchor] = nodes - before
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _TAGS and tag != "!":
            raise _too_much(file, event, f"the tag {tag[:80]!r} asks for more than text, lists and mappings")
        if levels > _MOST_LEVELS:
            raise _too_much(file, event, f"it is nested more than {_MOST_LEVELS} deep")
        if nodes > _MOST_NODES:
            raise _too_much(file, event, f"it holds more than {_MOST_NODES:,} values with its aliases expanded")


def _too_much(file: str, event: Any, reason: str) -> ProblemError:
    return ProblemError(reason, file=file, field="line", value=event.start_mark.line + 1, remedy="write the values out, plainly")


def _built(node: yaml.Node, yaml: Any, file: str) -> Plain:
    if isinstance(node, yaml.ScalarNode):
        value: str = node.value
        return None if node.style is None and value in _NULLS else value
    if isinstance(node, yaml.SequenceNode):
        return [_built(item, yaml, file) for item in node.value]
    built: dict[str, Plain] = {}
    for key_node, value_node in node.value:
        key = _built(key_node, yaml, file)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise ProblemError("a key must be a text", file=file, field=f"line {line}", value=key, remedy="write a name there")
        if key in built:
            raise ProblemError(
                f"the key stands there twice, again in line {line}", file=file, field=key, value=key, remedy="keep one of them"
            )
        built[key] = _built(value_node, yaml, file)
    return built
