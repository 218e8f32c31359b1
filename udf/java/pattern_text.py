"""Reading a Java pattern character by character, and writing characters for the other dialects."""

from __future__ import annotations

import unicodedata

FLAGS = frozenset("idmsux")
CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\x0c", "a": "\x07", "e": "\x1b"}


class BadPattern(Exception):
    """Java would refuse the pattern; the text says why."""


class NotTranslated(Exception):
    """Java knows the construct, this engine does not; the text names it."""


class Source:
    """A pattern, a place in it, and the flags in force. With flag x it skips blanks and comments by
    itself."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.flags: frozenset[str] = frozenset()

    def _skip(self) -> None:
        # The flags can change in the middle of a pattern, so each read looks at them anew.
        while "x" in self.flags and self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\n\x0b\x0c\r":
                self._at += 1
            elif char == "#":
                while (
                    self._at < len(self._text)
                    and self._text[self._at] not in "\n\r\x85\u2028\u2029"
                ):
                    self._at += 1
            else:
                return

    @property
    def at_end(self) -> bool:
        return not self.peek()

    def peek(self) -> str:
        """The next character, '' at the end."""
        self._skip()
        return self._text[self._at : self._at + 1]

    def next(self) -> str:
        char = self.peek()
        if not char:
            raise BadPattern("it ends too early")
        self._at += 1
        return char

    def next_as_is(self) -> str:
        """The next character even if it is a blank that flag x would skip: what follows a
        backslash."""
        self._at += 1
        if self._at > len(self._text):
            raise BadPattern("it ends with a backslash")
        return self._text[self._at - 1]

    def take(self, text: str) -> bool:
        """Steps over `text` if it is next."""
        self._skip()
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def name(self, closing: str) -> str:
        end = self._text.find(closing, self._at)
        name = self._text[self._at : end]
        if end < 0 or not name.isascii() or not name.isalnum() or not name[0].isalpha():
            raise BadPattern(
                f"a group's name has letters and digits only and ends with '{closing}'"
            )
        self._at = end + 1
        return name

    def up_to(self, closing: str) -> str:
        end = self._text.find(closing, self._at)
        if end < 0:
            raise BadPattern(f"'{closing}' is missing")
        text, self._at = self._text[self._at : end], end + len(closing)
        return text

    def until_end_of_quotation(self) -> str:
        end = self._text.find("\\E", self._at)
        text = self._text[self._at : end] if end >= 0 else self._text[self._at :]
        self._at = end + 2 if end >= 0 else len(self._text)
        return text

    def read_flags(self) -> frozenset[str]:
        """Reads `i-s` up to `)` or `:` and gives the flags then in force."""
        flags, on = set(self.flags), True
        while (char := self._text[self._at : self._at + 1]) not in (")", ":"):
            # `on` turns at the first minus sign only: a second one is an unknown modifier.
            self._at += 1
            if char == "-" and on:
                on = False
            elif char and char in FLAGS:
                (flags.add if on else flags.discard)(char)
            elif char == "U":
                raise NotTranslated("the flag U (classes of all of Unicode)")
            else:
                raise BadPattern(f"unknown inline modifier '{char}'")
        return frozenset(flags)

    def quantifier(self) -> tuple[int, int | None] | None:
        """The repeat that is next, None if there is none; without its suffix `?` or `+`."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if not self.take("{"):
            return None
        # "{2}" has no comma and means exactly two, "{2,}" an open end.
        least, comma, most = self.up_to("}").partition(",")
        if not _is_count(least) or (most and not _is_count(most)):
            raise BadPattern("illegal repetition")
        upper = (int(most) if most else None) if comma else int(least)
        # Counts are Java ints; an upper bound below the lower one is refused.
        if int(least) > 2**31 - 1 or (upper is not None and not int(least) <= upper < 2**31):
            raise BadPattern("illegal repetition range")
        return int(least), upper

    def character_escape(self, char: str) -> str:
        """The character that a backslash and `char` stand for."""
        if char in CONTROL_ESCAPES:
            return CONTROL_ESCAPES[char]
        match char:
            case "0":
                return self._octal()
            case "x" if self.take("{"):
                return _character(self.up_to("}"))
            case "x":
                return _character(self._exactly(2))
            case "u":
                return self._utf16()
            case "c":
                # \cA is U+0001: Java flips bit 6 of whatever follows, also of what is no letter.
                return chr(ord(self.next_as_is()) ^ 64)
            case "N" if self.take("{"):
                return _named(self.up_to("}"))
        # Java reserves all letters and digits for escapes; any other character stands for itself.
        if char.isascii() and char.isalnum():
            raise BadPattern(f"illegal or unsupported escape sequence '\\{char}'")
        return char

    def _exactly(self, count: int) -> str:
        text, self._at = self._text[self._at : self._at + count], self._at + count
        if len(text) < count:
            raise BadPattern("an escape ends too early")
        return text

    def _octal(self) -> str:
        digits = ""
        while (
            len(digits) < 3 and (char := self._text[self._at : self._at + 1]) and char in "01234567"
        ):
            # Octal escapes go up to \0377: of three digits the first is at most 3.
            if len(digits) == 2 and digits[0] > "3":
                break
            digits += char
            self._at += 1
        if not digits:
            raise BadPattern("illegal octal escape sequence")
        return chr(int(digits, 8))

    def _utf16(self) -> str:
        high = ord(_character(self._exactly(4)))
        # Two \u escapes of a surrogate pair are one character, as Java's UTF-16 has it.
        if 0xD800 <= high < 0xDC00 and self._text.startswith("\\u", self._at):
            low = ord(_character(self._text[self._at + 2 : self._at + 6]))
            if 0xDC00 <= low < 0xE000:
                self._at += 6
                return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
        return chr(high)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _character(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except (ValueError, OverflowError):
        raise BadPattern("illegal hexadecimal escape sequence") from None


def _named(name: str) -> str:
    try:
        return unicodedata.lookup(name)
    except KeyError:
        raise BadPattern(f"unknown character name '{name}'") from None


def quoted(char: str) -> str:
    """The character for `regex`, within and without a class."""
    if char.isascii() and char.isalnum():
        return char
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def byte_text(text: str) -> str:
    """The text's UTF-8 bytes for Hyperscan; lone surrogates, which no value holds, become the bytes
    they would have."""
    data = text.encode("utf-8", "surrogatepass")
    escaped = "".join(chr(b) if b < 128 and chr(b).isalnum() else f"\\x{b:02x}" for b in data)
    return escaped if len(data) <= 1 else f"(?:{escaped})"


def quoted_re2(char: str) -> str:
    """The character for RE2, within and without a class."""
    if char.isascii() and char.isalnum():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\x{{{code:x}}}"


def quote_re2(text: str) -> str:
    """A literal for RE2."""
    return "".join(map(quoted_re2, text))
