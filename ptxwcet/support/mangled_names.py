"""Reads mangled names of C++ (Itanium), from left to right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

_UNNAMED = re.compile(r"_GLOBAL_[._$]N")
_DIGITS = re.compile(r"n?([0-9]*)")
_MOST_LETTERS = 400_000  # written in all, parts of parts included
_DEEPEST = 64

_Read = TypeVar("_Read")


class Mangled(NamedTuple):
    """The parts of a mangled name; ``arguments`` and ``parameters`` are None where unknown.

    ``tags`` are the ABI tags of its last part.
    """

    scopes: tuple[str, ...]
    tags: tuple[str, ...]
    arguments: str | None
    parameters: str | None


def read_mangled(text: str) -> Mangled | None:
    """Returns the parts of a text that begins with ``_Z``, as far as certain; None if it is not.

    Cost: linear, within fixed limits beyond which the answer is None.
    """
    reader = _Reader(text)
    try:
        return reader.whole()
    except Unknown:
        return reader.certain
    except Malformed:
        return None


class _Reader:
    """A reader of one mangled name, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 2
        self.certain: Mangled | None = None  # the result if the rest is unknown
        self._known: list[tuple[Value, tuple[Value, ...] | None]] = []  # each with its T_
        self._arguments: tuple[Value, ...] = ()  # the meaning of T_ and similar codes
        self._uses = 0  # of T_ and similar codes
        self._letters = 0
        self._depth = 0
        self._is_name_of_all = True

    def whole(self) -> Mangled:
        """Returns the mangled name. Raises Malformed, Unknown."""
        self._is_next("L")
        name = self._name()
        self.certain = Mangled(name.scopes, name.tags, name.arguments, None)
        if self.at == len(self.text):
            return self.certain
        parameters = self._parameters(name)
        if self.at < len(self.text):
            raise Malformed
        return self.certain._replace(parameters=parameters)

    # --- letters ----------------------------------------------------------------------------------

    def _peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def _is_next(self, word: str) -> bool:
        """Returns whether a word follows, and skips it."""
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def _expect(self, word: str) -> None:
        if not self._is_next(word):
            raise Malformed

    def _number(self) -> int:
        """Reads decimal digits, of which there may be none."""
        start = self.at
        while self._peek().isdigit() and self.at - start < 9:
            self.at += 1
        return int(self.text[start : self.at] or -1)

    def _sequence(self) -> int:
        """Reads ``_``, ``0_``, ``1A_``: 0, 1, 47."""
        start = self.at
        while self._peek().isdigit() or self._peek().isupper():
            self.at += 1
        digits = self.text[start : self.at]
        self._expect("_")
        if len(digits) > 4:
            raise Malformed
        return int(digits, 36) + 1 if digits else 0

    def _count(self, value: Value) -> Value:
        """Returns the value, and counts its letters."""
        parts = value.parts if isinstance(value, Pack) else (value,)
        self._letters += sum(len(part.left) + len(part.right) + 1 for part in parts)
        if self._letters > _MOST_LETTERS:
            raise Unknown
        return value

    def _keep(self, value: Value, uses: int) -> Value:
        """Returns the value, for later substitutions; ``uses`` when its text began."""
        self._known.append((self._count(value), self._arguments if self._uses > uses else None))
        return value

    def _deeper(self, read: Callable[[], _Read]) -> _Read:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unknown
        result = read()
        self._depth -= 1
        return result

    # --- names ------------------------------------------------------------------------------------

    def _name(self) -> Name:
        """Reads a name, nested or not, with its template arguments."""
        is_of_all, self._is_name_of_all = self._is_name_of_all, False
        if self._is_next("N"):
            return self._nested(is_of_all)
        if self._is_next("Z"):
            return self._local()
        if self._peek() == "S" and self._peek(2) != "St":
            return self._with_arguments(Name((self._part(self._substitution()).text,)), is_of_all)
        scopes = ("std",) if self._is_next("St") else ()
        word, tags = self._word(None)
        name = Name((*scopes, word), "", tags)
        if self._peek() != "I":
            return name
        self._keep(Part(name.text), self._uses)
        return self._with_arguments(name, is_of_all)

    def _with_arguments(self, name: Name, is_of_all: bool) -> Name:
        if self._peek() != "I":
            return name
        if is_of_all:
            self.certain = Mangled(name.scopes, name.tags, None, None)
        values = self._template_arguments()
        written = ", ".join(part.text for value in values for part in self._parts(value))
        return name._replace(arguments=f"<{written}>", values=values)

    def _nested(self, is_of_all: bool) -> Name:
        """Reads ``N ... E``: each part but the last can be substituted."""
        suffix = ""
        while self._peek() in QUALIFIERS:
            suffix = f" {QUALIFIERS[self._peek()]}{suffix}"
            self.at += 1
        name: Name | None = None
        uses = self._uses
        while not self._is_next("E"):
            name, is_new = self._nested_part(name, is_of_all)
            if is_new and self._peek() != "E":
                self._keep(Part(name.text), uses)
        if name is None:
            raise Malformed
        return name._replace(suffix=suffix)

    def _nested_part(self, name: Name | None, is_of_all: bool) -> tuple[Name, bool]:
        """Returns a name with its next part, and whether a substitution can name that."""
        if self._peek() == "I":
            if name is None or name.arguments:
                raise Malformed
            return self._with_arguments(name, is_of_all), True
        if name is None and self._is_next("St"):
            return Name(("std",)), False
        if name is None and self._peek() == "S":
            return Name((self._part(self._substitution()).text,)), False
        if name is None and self._peek() == "T":
            return Name((self._part(self._template_parameter()).text,)), True
        scopes = () if name is None else (*name.scopes[:-1], name.scopes[-1] + name.arguments)
        self._is_next("L")
        word, tags = self._word(scopes[-1] if scopes else None)
        return Name((*scopes, word), "", tags), True

    def _local(self) -> Name:
        """Reads ``Z function E entity``: a class or lambda inside of a function."""
        function = self._deeper(self._encoding)
        self._expect("E")
        if self._peek() in ("s", "d"):
            raise Unknown
        entity = self._deeper(self._name)
        return entity._replace(scopes=(function, *entity.scopes))

    def _encoding(self) -> str:
        """Reads a function with its parameters."""
        outer, self._arguments = self._arguments, ()
        self._is_next("L")
        name = self._name()
        parameters = "" if self._peek() in ("E", "") else self._parameters(name)
        self._arguments = outer
        return name.text + parameters + name.suffix

    def _parameters(self, name: Name) -> str:
        """Reads the parameters of a function, up to the end, after the result of a template."""
        self._arguments = name.values
        if name.arguments:
            self._type()
        return f"({self._types_until_end()})"

    def _types_until_end(self) -> str:
        types: list[Part] = []
        while self._peek() not in ("E", ""):
            types += self._parts(self._type())
        if [part.text for part in types] == ["void"]:
            types = []
        return ", ".join(part.text for part in types)

    def _word(self, scope: str | None) -> tuple[str, tuple[str, ...]]:
        """Reads an identifier, operator, constructor or lambda; and its ABI tags."""
        if self._peek().isdigit():
            word = self._identifier()
        elif self._peek() == "U":
            word = self._unnamed()
        elif self._peek() in ("C", "D") and self._peek(2)[1:].isdigit() and scope is not None:
            plain = scope.partition("<")[0].rpartition("::")[2]
            word = plain if self._peek() == "C" else f"~{plain}"
            self.at += 2
            if self._peek() == "I":
                raise Unknown  # the only template without a result
        elif self._peek(2) in OPERATORS:
            word = f"operator{OPERATORS[self._peek(2)]}"
            self.at += 2
        elif self._peek().islower() or self._peek() == "D":
            raise Unknown
        else:
            raise Malformed
        tags = []
        while self._is_next("B"):
            tags.append(self._identifier())
        return word, tuple(tags)

    def _identifier(self) -> str:
        length = self._number()
        if length < 1 or self.at + length > len(self.text):
            raise Malformed
        word = self._peek(length)
        self.at += length
        if not re.fullmatch(r"[A-Za-z_$][\w$]*", word):
            raise Malformed
        return "(anonymous namespace)" if _UNNAMED.match(word) else word

    def _unnamed(self) -> str:
        if self._is_next("Ul"):
            outer, self._arguments = self._arguments, ()  # a generic lambda has its own
            parameters = self._deeper(self._types_until_end)
            self._arguments = outer
            self._expect("E")
            return f"{{lambda({parameters})#{self._ordinal()}}}"
        self._expect("Ut")
        return f"{{unnamed type#{self._ordinal()}}}"

    def _ordinal(self) -> int:
        number = self._number() + 2
        self._expect("_")
        return number

    # --- template arguments and substitutions -----------------------------------------------------

    def _template_arguments(self) -> tuple[Value, ...]:
        """Reads ``I ... E``."""
        self._expect("I")
        values: list[Value] = []
        while not self._is_next("E"):
            values.append(self._deeper(self._argument))
        return tuple(values)

    def _argument(self) -> Value:
        if self._is_next("J"):
            parts: list[Part] = []
            while not self._is_next("E"):
                parts += self._parts(self._deeper(self._argument))
            return Pack(tuple(parts))
        if self._is_next("X"):
            value = self._expression()
            self._expect("E")
            return value
        return self._literal() if self._peek() == "L" else self._type()

    def _parts(self, value: Value) -> tuple[Part, ...]:
        """Returns the parts of a value in a list: those of an expanded pack, or only the value."""
        if isinstance(value, Pack) and not value.is_expanded:
            raise Unknown
        self._count(value)
        return value.parts if isinstance(value, Pack) else (value,)

    def _part(self, value: Value) -> Part:
        """Returns a value that is not a list."""
        if isinstance(value, Pack):
            raise Unknown
        return value

    def _substitution(self) -> Value:
        """Reads ``S_``, ``S0_``: an earlier value; ``Ss`` etc.: names of the library."""
        self._expect("S")
        if self._peek() in LIBRARY:
            self.at += 1
            return Part(LIBRARY[self.text[self.at - 1]])
        number = self._sequence()
        if number >= len(self._known):
            raise Malformed
        value, meant = self._known[number]
        if meant is not None:
            self._uses += 1
            if meant is not self._arguments:
                raise Unknown  # T_ of one function in the name of another
        return value

    def _template_parameter(self) -> Value:
        """Reads ``T_``, ``T0_``: an argument of the function's template."""
        self._expect("T")
        number = self._sequence()
        if number >= len(self._arguments):
            raise Unknown
        self._uses += 1
        value = self._arguments[number]
        return value._replace(is_expanded=False) if isinstance(value, Pack) else value

    # --- values -----------------------------------------------------------------------------------

    def _literal(self) -> Part:
        self._expect("L")
        if self._is_next("_Z"):
            encoded = Part(self._deeper(self._encoding))
            self._expect("E")
            return encoded
        code = self._peek()
        kind = self._part(self._type()).text
        if code in "fdeg" or kind == "...":
            raise Unknown
        digits = _DIGITS.match(self.text, self.at)
        assert digits is not None
        self.at = digits.end()
        self._expect("E")
        if kind == BUILTIN["Dn"]:
            return Part("nullptr")
        written = digits.group().replace("n", "-")
        if not digits.group(1):
            raise Unknown
        if code == "b" and written in ("0", "1"):
            return Part("true" if written == "1" else "false")
        return Part(written + SUFFIXES[code] if code in SUFFIXES else f"({kind}){written}")

    def _expression(self) -> Value:
        return self._deeper(self._plain_expression)

    def _plain_expression(self) -> Value:
        code = self._peek(2)
        if self._peek() == "L":
            return self._literal()
        if self._peek() == "T":
            return self._template_parameter()
        if code not in BINARY | UNARY:
            raise Unknown
        self.at += 2
        sign = OPERATORS[code]
        operand = self._operand()
        if code in UNARY:
            return self._count(Part(sign + operand))
        return self._count(Part(f"{operand} {sign} {self._operand()}"))

    def _operand(self) -> str:
        text = self._part(self._expression()).text
        return f"({text})" if " " in text else text

    # --- types ------------------------------------------------------------------------------------

    def _type(self) -> Value:
        return self._deeper(self._plain_type)

    def _plain_type(self) -> Value:
        code, two, uses = self._peek(), self._peek(2), self._uses
        builtin = two if code == "D" else code
        if builtin in BUILTIN:
            self.at += len(builtin)
            return Part(BUILTIN[builtin])
        if code == "S" and two != "St":
            value = self._substitution()
            if self._peek() != "I":
                return value
            return self._keep(self._instance(value), uses)
        if code == "T":
            value = self._keep(self._template_parameter(), uses)
            return self._keep(self._instance(value), uses) if self._peek() == "I" else value
        return self._keep(self._new_type(code, two), uses)

    def _instance(self, template: Value) -> Part:
        name = Name((self._part(template).text,))
        return Part(self._with_arguments(name, is_of_all=False).text)

    def _new_type(self, code: str, two: str) -> Value:
        """Reads a type that neither a substitution nor a short code names."""
        if code in ("N", "Z") or code.isdigit() or two == "St":
            return Part(self._name().text)
        if code in QUALIFIERS:
            words = []
            while self._peek() in QUALIFIERS:
                words.append(QUALIFIERS[self._peek()])
                self.at += 1
            return each(self._type(), lambda part: qualified(part, words))
        if two == "Dp":
            self.at += 2
            value = self._type()
            if not isinstance(value, Pack):
                raise Unknown
            return value._replace(is_expanded=True)
        if not code.isalpha():
            raise Malformed
        self.at += 1
        if code in "PRO":
            sign = {"P": "*", "R": "&", "O": "&&"}[code]
            return each(self._type(), lambda part: pointer(part, sign))
        if code == "u":
            return Part(self._identifier())
        if code == "M":
            owner, member = self._part(self._type()), self._part(self._type())
            return pointer(member, f"{'' if member.is_bound else ' '}{owner.text}::*")
        if code == "A":
            return self._array()
        if code == "F":
            return self._function()
        raise Unknown

    def _array(self) -> Part:
        size = "" if self._peek() == "_" else self._array_size()
        self._expect("_")
        element = self._part(self._type())
        left = element.left if element.is_bound else f"{element.left} "
        return Part(left, f"[{size}]{element.right}", is_bound=True)

    def _array_size(self) -> str:
        if self._peek().isdigit():
            return str(self._number())
        return self._part(self._expression()).text

    def _function(self) -> Part:
        self._is_next("Y")
        result = self._part(self._type())
        if result.right:
            raise Unknown
        parameters = self._types_until_end()
        self._expect("E")
        return Part(f"{result.left} ", f"({parameters})", is_bound=True)


# --- the parts of mangled names: codes, types, expressions, and how parts combine -----------------


BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128",
    "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double", "g": "__float128",
    "z": "...", "Dn": "decltype(nullptr)", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t",
    "Dh": "half", "Da": "auto",
}  # fmt: skip
LIBRARY = {
    "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
OPERATORS = {
    "ad": "&", "aN": "&=", "aS": "=", "aa": "&&", "an": "&", "cl": "()", "cm": ",", "co": "~",
    "dV": "/=", "de": "*", "dv": "/", "eO": "^=", "eo": "^", "eq": "==", "ge": ">=", "gt": ">",
    "ix": "[]", "lS": "<<=", "le": "<=", "ls": "<<", "lt": "<", "mI": "-=", "mL": "*=", "mi": "-",
    "ml": "*", "mm": "--", "ne": "!=", "ng": "-", "nt": "!", "oR": "|=", "oo": "||", "or": "|",
    "pL": "+=", "pl": "+", "pp": "++", "ps": "+", "pt": "->", "rM": "%=", "rS": ">>=", "rm": "%",
    "rs": ">>",
}  # fmt: skip
BINARY = frozenset((
    "aa", "an", "dv", "eo", "eq", "ge", "gt", "le", "ls", "lt", "mi", "ml", "ne", "oo", "or", "pl",
    "rm", "rs",
))  # fmt: skip
UNARY = frozenset(("ad", "co", "ng", "nt"))
SUFFIXES = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
QUALIFIERS = {"K": "const", "V": "volatile", "r": "__restrict__"}
_POINTER = re.compile(r"[*&]((?: (?:const|volatile|__restrict__))*)$")


class Malformed(Exception):
    """The error of a text that is not a mangled name."""


class Unknown(Exception):
    """The error of a text that may be one, but has a part that is not spelled out here."""


class Part(NamedTuple):
    """A type or an expression: its text to the left and to the right of a declared name.

    ``is_bound``: a function or an array, whose pointers need parentheses.
    """

    left: str
    right: str = ""
    is_bound: bool = False

    @property
    def text(self) -> str:
        """The type without a name in it."""
        return self.left + self.right


class Pack(NamedTuple):
    """The template arguments that one parameter represents."""

    parts: tuple[Part, ...]
    is_expanded: bool = True  # not a pattern with repetitions to come


Value = Part | Pack


class Name(NamedTuple):
    """A name in the text; ``arguments`` are those at its end, if any."""

    scopes: tuple[str, ...]
    arguments: str = ""
    tags: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()  # of the arguments
    suffix: str = ""  # of a member function: const

    @property
    def text(self) -> str:
        """The name as it is written."""
        return "::".join(self.scopes) + self.arguments


def each(value: Value, change: Callable[[Part], Part]) -> Value:
    """Returns the value with each of its parts changed."""
    if isinstance(value, Pack):
        return value._replace(parts=tuple(map(change, value.parts)))
    return change(value)


def pointer(part: Part, sign: str) -> Part:
    """Returns a pointer or reference to a type; a reference to a reference is a reference."""
    if sign in ("&", "&&") and part.left.endswith("&"):
        is_right = sign == "&&" and part.left.endswith("&&")
        return part if is_right else part._replace(left=part.left.rstrip("&") + "&")
    if part.is_bound:
        return Part(f"{part.left}({sign}", f"){part.right}")
    return Part(part.left + sign, part.right)


def qualified(part: Part, words: list[str]) -> Part:
    """Returns a type with qualifiers: ``const int``, ``int* const``."""
    if part.is_bound and part.right.startswith("("):
        raise Unknown
    behind = _POINTER.search(part.left)
    has = part.left.split("<")[0].split() if behind is None else behind.group(1).split()
    shown = " ".join(word for word in QUALIFIERS.values() if word in words and word not in has)
    if not shown:
        return part
    left = f"{shown} {part.left}" if behind is None else f"{part.left} {shown}"
    return part._replace(left=left)
