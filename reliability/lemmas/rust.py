"""Reads lines of Rust and says in z3 what they compute, and what would make them panic.

A number is a bit vector or, where its products are too wide for z3's bits, an integer within the same bounds: both are
exact. Each `+`, `-`, `*`, `/` and shift adds a duty: it must not overflow.
"""

import ast
import operator
import re
from contextlib import contextmanager
from z3 import *

# Rust has Python's precedences, but for `as`, which binds as `**` does.
RULES = [(r"\s+", " "), (r"match (.+?) \{ true => (.+?), false => (.+?),? \}", r"((\2) if (\1) else (\3))"),
         (r"if (.+?) \{ (.+?) \} else \{ (.+?) \}", r"((\2) if (\1) else (\3))"), ("/", "//"),
         (r" as (\w+)", r" ** \1"), (r"\blet |\?|self\.|\.get\(\)|\.into\(\)|\*(?=end)", ""), ("&&", " and "),
         (r"\|\|", " or "), (r"!(?!=)", " not "), ("::", "_"), (r"\bfrom\b", "from_")]
OPERATORS = dict(zip(
    "Add Sub Mult FloorDiv Mod LShift RShift BitAnd BitOr BitXor Lt LtE Gt GtE Eq NotEq".split(),
    "add sub mul floordiv mod lshift rshift and or xor lt le gt ge eq ne".split()))
ON_TERMS = {name: getattr(operator, f"__{name}__") for name in OPERATORS.values()} | {"floordiv": operator.truediv}
ON_BITS = {**ON_TERMS, "floordiv": UDiv, "mod": URem, "rshift": LShR, "lt": ULT, "le": ULE, "gt": UGT, "ge": UGE}
LEMMAS = []

def lemma(files, *slips):
    """Registers a proof about these files. With one of the slips in what it quotes, it must fail."""
    return lambda prove: LEMMAS.append((prove, files, slips))

class Number:
    """An unsigned number of `width` bits."""

    def __init__(self, code, width, term):
        self.code, self.width, self.term, self.whole = code, width, term, is_int(term)

    def lift(self, other):
        if isinstance(other, int):
            self.code.must(0 <= other < 1 << self.width)
            return self.like(IntVal(other) if self.whole else BitVecVal(other, self.width))
        assert (self.width, self.whole) == (other.width, other.whole), "mixed types"
        return other

    def cast(self, width):
        more = width - self.width
        if self.whole:
            return Number(self.code, width, self.term if more >= 0 else self.term % 2**width)
        return Number(self.code, width, ZeroExt(more, self.term) if more >= 0 else Extract(width - 1, 0, self.term))

    def fits(self, op, other):
        a, b = self.term, self.lift(other).term
        if self.whole:
            return And(0 <= ON_TERMS[op](a, b), ON_TERMS[op](a, b) < 2**self.width)
        return {"add": ULE(a, ~b), "sub": UGE(a, b), "mul": BVMulNoOverflow(a, b, False)}[op]

    def apply(self, op, other):
        if op in ("lshift", "rshift"):
            self.code.must(other < self.width)
            if self.whole:
                shifted = self.term * 2**other if op == "lshift" else self.term / 2**other
                return self.like(shifted % 2**self.width)
            other = other if isinstance(other, int) else other.cast(self.width)
        b = self.lift(other).term
        self.code.must(self.fits(op, other) if op in ("add", "sub", "mul") else op not in ("floordiv", "mod") or b != 0)
        result = (ON_TERMS if self.whole else ON_BITS)[op](self.term, b)
        return result if is_bool(result) else self.like(result)

    def __getattr__(self, name):
        """`checked_add` and the like, with `?` behind: the function ends if the result does not fit."""
        op = name.removeprefix("checked_")
        return lambda other: self.code.given(self.fits(op, other)) or self.apply(op, other)

    like = lambda a, term: Number(a.code, a.width, term)
    min = lambda a, b: choice(a <= b, a, b)
    max = lambda a, b: choice(a >= b, a, b)
    div_ceil = lambda a, b: a // b + choice(a % b != 0, a.lift(1), 0)
    next_multiple_of = lambda a, b: a.div_ceil(b) * b
    __rlshift__ = lambda a, b: Number(a.code, 64, BitVecVal(b, 64)) << a

for op in OPERATORS.values():
    setattr(Number, f"__{op}__", lambda a, b, op=op: a.apply(op, b))
    if op in ("add", "sub", "mul"):
        setattr(Number, f"__r{op}__", lambda a, b, op=op: a.lift(b).apply(op, a))

def normal(text):
    """Without comments, and without the blanks and commas that a formatter places."""
    return re.sub(r",([)\]}])", r"\1", re.sub(r"//.*|\s+", "", text))

def choice(condition, a, b):
    number = a if isinstance(a, Number) else b
    if isinstance(condition, bool) or not isinstance(number, Number):
        return a if condition is True else b if condition is False else If(condition, a, b)
    return number.like(If(condition, number.lift(a).term, number.lift(b).term))

class Code(ast.NodeVisitor):
    """The sources that a lemma is about, the values of names, what is given, and what must hold."""

    def __init__(self, root, files, slip=None):
        self.source, self.slip, self.slipped = "".join((root / file).read_text() for file in files), slip, False
        self.normal, self.names = normal(self.source), {}
        self.givens, self.steps, self.duties, self.conditions = [], [], [], []

    def __call__(self, quote, **names):
        """What these lines of the sources compute. A `let` in them names its value; `self.a.b` is the name `a_b`."""
        assert normal(quote) in self.normal, f"no longer in the source: {quote}"
        kept = {name: self.names[name] for name in names if name in self.names}
        self.names |= names
        value = self.read(quote)
        self.names |= kept
        return value

    def constant(self, name):
        name = (re.search("[A-Z][A-Z_]+$", name) or [name])[0]
        found = re.search(rf"const {name}: \w+ = ([^;]+);", self.source)
        assert found, f"no longer in the source: {name}"
        return self.read(found[1])

    def read(self, text):
        if self.slip and self.slip[0] in text:
            text, self.slipped = text.replace(*self.slip), True
        for rule in RULES:
            text = re.sub(*rule, text)
        return self.visit(ast.parse(text.strip()))

    def must(self, *conditions):
        known = And(*self.steps, *self.conditions)
        self.duties += [Implies(known, condition) for condition in conditions if condition is not True]

    given = lambda self, *conditions: self.givens.extend(conditions)
    # What is proved first, then used.
    step = lambda self, *conditions: self.must(*conditions) or self.steps.extend(conditions)

    @contextmanager
    def where(self, condition):
        self.conditions.append(condition)
        yield
        self.conditions.pop()

    def bits(self, names, width=64, make=BitVec):
        found = [Number(self, width, make(name, width)) for name in names.split()]
        self.names |= zip(names.split(), found)
        return found

    def whole(self, names, width=64):
        found = self.bits(names, width, lambda name, _: Int(name))
        self.given(*(And(0 <= number.term, number.term < 2**width) for number in found))
        return found

    cast = lambda self, value, kind: (
        value.cast(64 if kind == "usize" else int(kind[1:])) if isinstance(value, Number) else value)
    key = lambda self, node: ast.unparse(node).replace(".", "_")
    visit_Module = lambda self, node: [self.visit(statement) for statement in node.body][-1]
    visit_Expr = lambda self, node: self.visit(node.value)
    visit_Constant = lambda self, node: node.value
    visit_List = visit_Tuple = lambda self, node: [self.visit(item) for item in node.elts]
    visit_Subscript = lambda self, node: self.visit(node.value)[node.slice.value]
    visit_UnaryOp = lambda self, node: Not(self.visit(node.operand))
    visit_Compare = lambda self, node: self.operate(node.ops[0], node.left, node.comparators[0])
    visit_Name = visit_Attribute = lambda self, node: (
        self.names[self.key(node)] if self.key(node) in self.names else self.constant(self.key(node)))
    visit_BinOp = lambda self, node: self.operate(node.op, node.left, node.right)

    def operate(self, op, left, right):
        if isinstance(op, ast.Pow):
            return self.cast(self.visit(left), right.id)
        return getattr(operator, f"__{OPERATORS[type(op).__name__]}__")(self.visit(left), self.visit(right))

    def visit_Assign(self, node):
        self.names[self.key(node.targets[0])] = value = self.visit(node.value)
        return value

    def visit_BoolOp(self, node):
        first, both = self.visit(node.values[0]), isinstance(node.op, ast.And)
        with self.where(first if both else Not(first)):
            second = self.visit(node.values[1])
        return And(first, second) if both else Or(first, second)

    def visit_IfExp(self, node):
        condition = self.visit(node.test)
        with self.where(condition):
            first = self.visit(node.body)
        with self.where(Not(condition)):
            return choice(condition, first, self.visit(node.orelse))

    def visit_Call(self, node):
        arguments, function = [self.visit(argument) for argument in node.args], self.key(node.func)
        if function in self.names:
            return self.names[function](*arguments) if callable(self.names[function]) else self.names[function]
        if isinstance(node.func, ast.Attribute):
            of, method = self.visit(node.func.value), node.func.attr
            return {"max": max}[method](of, *arguments) if isinstance(of, int) else getattr(of, method)(*arguments)
        return self.cast(arguments[0], function.removesuffix("_from"))
