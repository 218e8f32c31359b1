"""The structure of Java's regular expressions: alternatives, groups, quantifiers, anchors, escapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import regex

from udf.java_regex_classes import CLASSES, ClassReader, Flags, InvalidRegex, UnsupportedRegex, re2_class

# JDK 17: `.` stops at any line end, `$` matches before a last one, `\s` has the vertical tab.
MAX_DEPTH = 50
_DOT = r"[^\n\r\x85\u2028\u2029]"
_END = r"(?:\Z|(?=\r\n\Z)|(?=[\r\x85\u2028\u2029]\Z)|(?<!\r)(?=\n\Z))"
_MULTI_START = r"(?:\A|(?<=[\n\x85\u2028\u2029]|\r(?!\n))(?!\Z))"
_MULTI_END = r"(?:\Z|(?=[\r\x85\u2028\u2029])|(?<!\r)(?=\n))"
_LINE_BREAK = r"(?:\r\n|[\n\x0B\f\r\x85\u2028\u2029])"
# The text for `regex`, that for RE2, and the fewest characters that it matches.
_Piece: TypeAlias = tuple[str, str, int]
_FLAGS = {"i": "ignore_case", "s": "dot_all", "m": "multi_line", "u": "unicode_case", "x": "comments"}


@dataclass
class Reader(ClassReader):
    """Reads a pattern from left to right, once."""

    def whole(self) -> _Piece:
        """The whole pattern. InvalidRegex where Java refuses it."""
        piece = self._alternatives(0)
        if self.at < len(self.text):
            raise InvalidRegex("unmatched closing ')'")
        return piece

    def _alternatives(self, depth: int) -> _Piece:
        if depth > MAX_DEPTH:
            raise UnsupportedRegex(f"groups of a regular expression are nested more than {MAX_DEPTH} deep")
        saved = Flags(**vars(self.flags))
        first_group = self.groups
        branches = [self._branch(depth)]
        while self._take("|"):
            branches.append(self._branch(depth))
        self.flags = saved
        if len(branches) > 1:
            self.loose.update(range(first_group + 1, self.groups + 1))
        return "|".join(b[0] for b in branches), "|".join(b[1] for b in branches), min(b[2] for b in branches)

    def _branch(self, depth: int) -> _Piece:
        out: list[str] = []
        out2: list[str] = []
        width = 0
        while self._skip_comments() and self._peek() not in "|)":
            first = self.groups
            literal = self._quotation() if self._take("\\Q") else None
            if literal == "":
                continue
            for c in (literal or "")[:-1]:
                piece, piece2 = self._literal(c)
                out.append(piece)
                out2.append(piece2)
                width += 1
            atom = (*self._literal(literal[-1]), 1) if literal else self._atom(depth)
            piece, piece2, size = self._quantified(atom, first)
            out.append(piece)
            out2.append(piece2)
            width += size
        return "".join(out), "".join(out2), width

    def _skip_comments(self) -> bool:
        """With flag x, over spaces and `# …`; False at the end of the pattern."""
        while self.flags.comments and self.at < len(self.text) and (self._peek().isspace() or self._peek() == "#"):
            line = self.text.find("\n", self.at) if self._peek() == "#" else self.at
            self.at = len(self.text) if line < 0 else line + 1
        return self.at < len(self.text)

    def _quotation(self) -> str:
        """What stands between \\Q and \\E, or the end."""
        stop = self.text.find("\\E", self.at)
        found = self.text[self.at :] if stop < 0 else self.text[self.at : stop]
        self.at = len(self.text) if stop < 0 else stop + 2
        return found

    def _quantified(self, atom: _Piece, first_group: int) -> _Piece:
        out, out2, width = atom
        low, text = self._quantifier()
        if text is None:
            return atom
        self.loose.update(range(first_group + 1, self.groups + 1))
        if not out:  # a flag group such as (?i) cannot be repeated
            raise InvalidRegex(f"dangling meta character '{text[0]}'")
        mode = "?" if self._take("?") else "+" if self._take("+") else ""
        self.re2 = self.re2 and mode != "+" and width > 0
        if self._peek(1) in ("*", "+", "?"):
            raise InvalidRegex(f"dangling meta character '{self._peek()}'")
        return f"{out}{text}{mode}", f"{out2}{text}{mode}", width * low

    def _quantifier(self) -> tuple[int, str | None]:
        c = self._peek()
        if c in ("*", "?", "+"):
            self.at += 1
            return (1 if c == "+" else 0), c
        if c != "{":
            return 1, None
        found = regex.compile(r"\{([0-9]{1,9})(,([0-9]{1,9})?)?\}").match(self.text, self.at)
        if found is None:
            raise InvalidRegex("illegal repetition")
        low, high = int(found[1]), int(found[3] or found[1])
        if high < low:
            raise InvalidRegex("illegal repetition range")
        if max(low, high) > 1000:
            self.re2 = False
        self.at = found.end()
        return low, found[0]

    def _atom(self, depth: int) -> _Piece:
        c = self._next()
        match c:
            case "(":
                return self._group(depth)
            case "[":
                inner, inner2 = self._class()
                fold = "(?i:{})" if self.flags.ignore_case and self.flags.unicode_case else "{}"
                return fold.format(f"[{inner}]"), fold.format(f"[{inner2}]"), 1
            case ".":
                return (r"(?s:.)", r"(?s:.)", 1) if self.flags.dot_all else (_DOT, re2_class(_DOT), 1)
            case "^":
                if self.flags.multi_line:
                    self.re2 = False
                    return _MULTI_START, "", 0
                return r"\A", r"\A", 0
            case "$":
                return self._end_anchor()
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise InvalidRegex(f"dangling meta character '{c}'")
            case "{":
                raise InvalidRegex("illegal repetition")
        return (*self._literal(c), 1)

    def _end_anchor(self) -> _Piece:
        if self.flags.multi_line:
            self.re2 = False
            return _MULTI_END, "", 0
        self.at_end = True
        return _END, r"\z", 0

    def _group(self, depth: int) -> _Piece:
        if not self._take("?"):
            self.groups += 1
            return self._closed("(", f"(?P<g{self.groups}>", depth)
        for look in ("=", "!", "<=", "<!", ">"):
            if self._take(look):
                self.re2 = False
                first = self.groups
                out, _, width = self._closed(f"(?{look}", "", depth)
                self.loose.update(range(first + 1, self.groups + 1))
                return out, "", width if look == ">" else 0
        if self._take("<"):
            name = self._until(">")
            if not regex.fullmatch(r"[a-zA-Z][a-zA-Z0-9]*", name) or name in self.names:
                raise InvalidRegex(f"bad name of a group '{name}'")
            self.groups += 1
            self.names[name] = self.groups
            return self._closed("(", f"(?P<g{self.groups}>", depth)
        return self._flag_group(depth)

    def _closed(self, start: str, start2: str, depth: int) -> _Piece:
        body, body2, width = self._alternatives(depth + 1)
        if not self._take(")"):
            raise InvalidRegex("unclosed group")
        return f"{start}{body})", f"{start2}{body2})", width

    def _flag_group(self, depth: int) -> _Piece:
        on = True
        flags = Flags(**vars(self.flags))
        while (c := self._next()) not in ":)":
            if c == "-":
                on = False
            elif c in _FLAGS:
                setattr(flags, _FLAGS[c], on)
            elif c in "dU":
                raise UnsupportedRegex(f"flag '{c}' of the regular expression '{self.text}' is not supported")
            else:
                raise InvalidRegex(f"unknown flag '{c}'")
        if c == ")":
            self.flags = flags
            return "", "", 0
        outer, self.flags = self.flags, flags
        result = self._closed("(?:", "(?:", depth)
        self.flags = outer
        return result

    def _escape(self) -> _Piece:
        c = self._next()
        if c.lower() in CLASSES and c.isalpha():
            inner = CLASSES[c.lower()]
            negated = "^" if c.isupper() else ""
            return f"[{negated}{inner}]", re2_class(f"[{negated}{inner}]"), 1
        if c in "123456789":
            return self._back_reference(c)
        match c:
            case "b" | "B":
                self.ascii_only = True
                return f"\\{c}", f"\\{c}", 0
            case "A":
                return r"\A", r"\A", 0
            case "z":
                return r"\Z", r"\z", 0
            case "Z":
                self.at_end = True
                return _END, r"\z", 0
            case "R":
                return _LINE_BREAK, re2_class(_LINE_BREAK), 1
            case "p" | "P":
                inner = self._property(c == "P")
                return f"[{inner}]", re2_class(f"[{inner}]"), 1
            case "k":
                if not self._take("<"):
                    raise InvalidRegex("a name in < > expected")
                name = self._until(">")
                if name not in self.names:
                    raise InvalidRegex(f"unknown group '{name}'")
                self.re2 = False
                return f"(?:\\g<{self.names[name]}>)", "", 0
        return (*self._literal(self._character(c)), 1)

    def _back_reference(self, digit: str) -> _Piece:
        number = int(digit)
        while self._peek().isdigit() and self._peek().isascii() and number * 10 + int(self._peek()) <= self.groups:
            number = number * 10 + int(self._next())
        self.re2 = False
        return (f"(?:\\g<{number}>)" if number <= self.groups else r"(?:(?!))"), "", 0
