"""Read Lua 5.1 as far as names go: what is declared where, and used by whom.

Luacheck is to be had from Debian and LuaRocks only, not from where `pip` gets a developer's tools;
this module reports the same about the scripts, and what only Redis would report: Lua's limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<comment>(?:--|#!)[^\n]*)|(?P<text>'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<number>0x[\da-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\.\.|\.\.|[=~<>]=|[-+*/%^#<>=(){}\[\];:,.])|(?P<line>\n)|(?P<blank>[ \t]+)"
)
_KEYWORDS = frozenset(
    (
        *("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in"),
        *("local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while"),
    )
)
_OPERATORS = frozenset(
    ["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"]
)
_SIGNS_BEFORE = frozenset({"-", "#", "not"})


class Token(NamedTuple):
    """A word, a sign, or the end of the text (''), and its line, from 1."""

    kind: str
    text: str
    line: int


def tokens_of(text: str) -> Iterator[Token]:
    """All tokens but comments and blanks; ValueError says where there is none."""
    line, at = 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match or not match.lastgroup:
            raise ValueError(f"line {line}: not Lua: {text[at : at + 20]!r}")
        kind = match.lastgroup
        if kind == "name" and match[0] in _KEYWORDS:
            kind = "keyword"
        if kind == "line":
            line += 1
        elif kind not in {"comment", "blank"}:
            yield Token(kind, match[0], line)
        at = match.end()
    yield Token("end", "", line)


@dataclass(eq=False, slots=True)
class Variable:
    """A local name."""

    name: str
    line: int
    is_parameter: bool = False
    is_used: bool = False
    hides: int | None = None
    """The line of another that it makes unreachable."""


@dataclass(eq=False, slots=True)
class Function:
    """A function, or the whole text."""

    line: int
    outer: Function | None = None
    last_line: int = 0
    parameters: int = 0
    most_locals: int = 0
    """How many it has at once."""
    upvalues: set[Variable] = field(default_factory=set)
    """Variables of other functions that it or a function in it uses."""
    blocks: list[dict[str, Variable]] = field(default_factory=list)

    def find(self, name: str) -> Variable | None:
        """The local that a name means here."""
        return next((block[name] for block in reversed(self.blocks) if name in block), None)


class Scopes:
    """The functions and names of one text; ValueError says where it is not Lua."""

    def __init__(self, text: str) -> None:
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.globals: list[Token] = []
        """Undeclared names, where they are used."""
        self._tokens = list(tokens_of(text))
        self._at = 0
        self._now: Function | None = None
        self._function_body([], 1)
        self._expect("")

    # Names.

    def _declare(self, name: str, line: int, *, is_parameter: bool = False) -> Variable:
        hidden, _ = self._look_up(name)
        variable = Variable(name, line, is_parameter, hides=hidden.line if hidden else None)
        self.variables.append(variable)
        function = self._here
        function.blocks[-1][name] = variable
        now = sum(map(len, function.blocks))
        function.most_locals = max(function.most_locals, now)
        return variable

    @property
    def _here(self) -> Function:
        assert self._now
        return self._now

    def _look_up(self, name: str) -> tuple[Variable | None, list[Function]]:
        passed, function = list[Function](), self._now
        while function:
            if variable := function.find(name):
                return variable, passed
            passed.append(function)
            function = function.outer
        return None, []

    def _use(self, token: Token) -> None:
        variable, passed = self._look_up(token.text)
        if not variable:
            self.globals.append(token)
            return
        variable.is_used = True
        for function in passed:
            function.upvalues.add(variable)

    # Tokens.

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> Token | None:
        token = self._next
        if token.kind == "text" or token.text not in texts:
            return None
        self._at += 1
        return token

    def _expect(self, text: str) -> Token:
        if token := self._take(text):
            return token
        raise ValueError(f"line {self._next.line}: {text!r} is missing before {self._next.text!r}")

    def _name(self) -> Token:
        token = self._next
        if token.kind != "name":
            raise ValueError(f"line {token.line}: {token.text!r} is not a name")
        self._at += 1
        return token

    def _names(self) -> list[Token]:
        names = [self._name()]
        while self._take(","):
            names.append(self._name())
        return names

    # Statements.

    def _block(self, *names: Token) -> None:
        """Statements with names of their own."""
        self._here.blocks.append({})
        for name in names:
            self._declare(name.text, name.line)
        self._statements()
        self._here.blocks.pop()

    def _statements(self) -> None:
        """Statements up to the keyword that ends them, which is left."""
        while self._next.text not in {"end", "else", "elseif", "until", ""}:
            self._statement()
            self._take(";")

    def _statement(self) -> None:
        token = self._next
        parsers: dict[str, Callable[[], None]] = {
            "do": self._do,
            "while": self._while,
            "repeat": self._repeat,
            "if": self._if,
            "for": self._for,
            "function": self._function,
            "local": self._local,
            "return": self._return,
            "break": lambda: None,
        }
        if token.kind == "keyword" and token.text in parsers:
            self._at += 1
            parsers[token.text]()
        else:
            self._assignment_or_call()

    def _assignment_or_call(self) -> None:
        start = self._next
        is_call = self._suffixed()
        while self._take(","):
            is_call = self._suffixed()
        if self._take("="):
            self._expressions()
        elif not is_call:
            raise ValueError(f"line {start.line}: {start.text!r} stands alone")

    def _do(self) -> None:
        self._block()
        self._expect("end")

    def _while(self) -> None:
        self._expression()
        self._expect("do")
        self._do()

    def _repeat(self) -> None:
        self._here.blocks.append({})
        self._statements()
        self._expect("until")
        self._expression()
        self._here.blocks.pop()

    def _if(self) -> None:
        self._expression()
        self._expect("then")
        self._block()
        while self._take("elseif"):
            self._expression()
            self._expect("then")
            self._block()
        if self._take("else"):
            self._block()
        self._expect("end")

    def _for(self) -> None:
        names = self._names()
        if not self._take("in"):
            self._expect("=")
        self._expressions()
        self._expect("do")
        self._block(*names)
        self._expect("end")

    def _return(self) -> None:
        if self._next.text not in {"end", "else", "elseif", "until", "", ";"}:
            self._expressions()

    def _local(self) -> None:
        if self._take("function"):
            name = self._name()
            self._declare(name.text, name.line)
            self._function_with_parameters(name.line)
            return
        names = self._names()
        if self._take("="):
            self._expressions()
        for name in names:
            self._declare(name.text, name.line)

    def _function(self) -> None:
        name = self._name()
        self._use(name)
        while self._take(".", ":"):
            self._name()
        self._function_with_parameters(name.line)

    # Functions and expressions.

    def _function_with_parameters(self, line: int) -> None:
        self._expect("(")
        names = [] if self._next.text in {")", "..."} else [self._name()]
        while names and self._take(","):
            if self._next.text == "...":
                break
            names.append(self._name())
        self._take("...")
        self._expect(")")
        self._function_body(names, line)
        self._expect("end")

    def _function_body(self, parameters: list[Token], line: int) -> None:
        function = Function(line, self._now, parameters=len(parameters))
        self.functions.append(function)
        self._now = function
        function.blocks.append({})
        for name in parameters:
            self._declare(name.text, name.line, is_parameter=True)
        self._block()
        function.last_line = self._next.line
        self._now = function.outer

    def _expressions(self) -> None:
        self._expression()
        while self._take(","):
            self._expression()

    def _expression(self) -> None:
        while self._take(*_SIGNS_BEFORE):
            pass
        self._operand()
        while self._take(*_OPERATORS):
            while self._take(*_SIGNS_BEFORE):
                pass
            self._operand()

    def _operand(self) -> None:
        token = self._next
        if self._take("function"):
            self._function_with_parameters(token.line)
        elif token.text == "{" and token.kind == "sign":
            self._table()
        elif token.kind in {"text", "number"} or token.text in {"nil", "true", "false", "..."}:
            self._at += 1
        else:
            self._suffixed()

    def _table(self) -> None:
        self._expect("{")
        while not self._take("}"):
            if self._take("["):
                self._expression()
                self._expect("]")
                self._expect("=")
            elif self._next.kind == "name" and self._tokens[self._at + 1].text == "=":
                self._at += 2
            self._expression()
            if self._next.text != "}" and not self._take(",", ";"):
                self._expect("}")

    def _suffixed(self) -> bool:
        """A name, or an expression in brackets, and what is done to it; whether that is a call."""
        is_call = False
        if self._take("("):
            self._expression()
            self._expect(")")
        else:
            self._use(self._name())
        while True:
            if self._take("."):
                self._name()
                is_call = False
            elif self._take("["):
                self._expression()
                self._expect("]")
                is_call = False
            elif self._take("("):
                if not self._take(")"):
                    self._expressions()
                    self._expect(")")
                is_call = True
            else:
                return is_call
