"""Small changes to a program, one at a time: what a careless repair might look like.

A change replaces the text of one node and leaves the rest of the file as it is, so that lines keep their numbers.
Docstrings, annotations, imports, what is raised and the visible example carry no value, and are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from grader.audit.sources import is_example

Node = ast.expr | ast.stmt
Change = tuple[Node, Node]  # what stands there, what shall stand there instead

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "isend": "send", "irecv": "recv"}
VALUELESS = (ast.Import, ast.ImportFrom, ast.Raise, ast.Global, ast.Nonlocal, ast.JoinedStr)
VALUELESS_FIELDS = {"annotation", "returns", "decorator_list", "msg"}


@dataclass(frozen=True)
class Mutant:
    """Hold one changed program and what was changed in it."""

    line: int
    before: str
    after: str
    source: str

    @property
    def change(self) -> str:
        """Return the change as notes.md names it: `before` -> `after`."""
        return f"`{self.before}` -> `{self.after}`"


def mutants(source: str, judges: str = "") -> Iterator[Mutant]:
    """Yield every mutant of a program, in the order of its lines.

    `judges` is the program that judges it, if that is known: what only the visible example needs is then left alone.
    """
    seen, tree = {source}, ast.parse(source)
    tree.body = [node for node in tree.body if not (judges and is_of_example(node, needed(tree, judges)))]
    for node, instead in changes(tree):
        mutant = replaced(source, node, instead)
        if mutant.source not in seen:
            seen.add(mutant.source)
            yield mutant


def needed(tree: ast.Module, judges: str) -> set[str]:
    """Return the names that what judges mentions, and those that their definitions need in turn."""
    uses = {name: node for node in tree.body for name in bound(node)}
    mentioned, found = names_in(judges), set[str]()
    beginnings = tuple(name for name in mentioned if name.endswith("_"))  # of an f-string that makes names
    new = {name for name in uses if name in mentioned or name.startswith(beginnings)}
    while new:
        found |= new
        inner = (each for name in new for each in ast.walk(uses[name]))
        new = {each.id for each in inner if isinstance(each, ast.Name)} & uses.keys() - found
    return found


def names_in(source: str) -> set[str]:
    """Return the names that a program mentions, those in strings that are nothing but a name included."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            found |= set(node.value.split("."))
    return found


def is_of_example(node: ast.stmt, found: set[str]) -> bool:
    """Return whether a statement defines names, but none that is needed."""
    return bool(names := bound(node)) and not names & found


def bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def changes(tree: ast.AST) -> Iterator[Change]:
    """Yield the changes of every node below `tree` that may bear on a result."""
    for field, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and field not in VALUELESS_FIELDS and not is_valueless(node):
                yield from of_statement(node)
                yield from of_expression(node)
                yield from changes(node)


def is_valueless(node: ast.AST) -> bool:
    """Return whether neither a node nor what is below it can change a result."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, VALUELESS) or (isinstance(node, ast.stmt) and is_example(node))


def of_statement(node: ast.AST) -> Iterator[Change]:
    """Remove a statement, or turn a condition or an update round."""
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Break() | ast.Continue():
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()
        case ast.If(test=test) | ast.While(test=test):
            yield test, ast.UnaryOp(ast.Not(), test)
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield node, ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)


def of_expression(node: ast.AST) -> Iterator[Change]:
    """Change an operator, a constant or a call."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            yield node, ast.BinOp(left, ARITHMETIC[type(op)](), right)
            if isinstance(op, ast.Div | ast.Mod):  # a division forgotten
                yield node, left
        case ast.Compare(ops=[op], left=left, comparators=right):
            yield node, ast.Compare(left, [COMPARISONS[type(op)]()], right)
        case ast.BoolOp(op=op, values=values):
            yield node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield node, operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield node, ast.IfExp(test, orelse, body)
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield node, ast.Constant(number + 1)
            yield node, ast.Constant(number - 1)
        case ast.Call():
            yield from ((node, instead) for instead in of_call(node))


def of_call(call: ast.Call) -> Iterator[ast.expr]:
    """Forget a call or one of its keywords, swap its arguments, or call its twin."""
    match call:
        case ast.Call(func=ast.Attribute(value=value), args=[], keywords=[]):  # x.clone() -> x
            yield value
        case ast.Call(args=[first, second, *rest]) if ast.unparse(call.func) not in {"min", "max"}:
            yield ast.Call(call.func, [second, first, *rest], call.keywords)
    for index in range(len(call.keywords)):  # group=group forgotten
        yield ast.Call(call.func, call.args, call.keywords[:index] + call.keywords[index + 1 :])
    match call.func:
        case ast.Name(id=name) if name in TWINS:
            yield ast.Call(ast.Name(TWINS[name]), call.args, call.keywords)
        case ast.Attribute(value=value, attr=name) if name in TWINS:
            yield ast.Call(ast.Attribute(value, TWINS[name]), call.args, call.keywords)


def replaced(source: str, node: Node, instead: Node) -> Mutant:
    """Return the program with one node's text replaced."""
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    start = sum(map(len, lines[:first])) + node.col_offset
    end = sum(map(len, lines[:last])) + (node.end_col_offset or 0)
    whole = b"".join(lines)
    text = ast.unparse(instead)
    inserted = f"({text})" if isinstance(instead, ast.expr) else text
    changed = (whole[:start] + inserted.encode() + whole[end:]).decode()
    return Mutant(node.lineno, " ".join(whole[start:end].decode().split()), text, changed)
