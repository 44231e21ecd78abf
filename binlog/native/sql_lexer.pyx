"""SQL lexer: cuts a statement into tokens, as the servers' lexers do; `sql_lexer.pyi` says how it is used.

It reads each character once, keeps no token, and never goes back, so its time is linear and its memory constant.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_4BYTE_KIND, PyUnicode_DATA, PyUnicode_FromKindAndData, PyUnicode_KIND, PyUnicode_READ

from enum import Enum

cdef enum:
    END, WORD, NAME, TEXT, BYTES, NUMBER, SYMBOL

#: characters of the longest keyword, with some to spare: a longer word is not a keyword
cdef enum:
    KEYWORD_CHARS_MAX = 64

#: versions in executable comments that MariaDB leaves to MySQL
cdef enum:
    MYSQL_ONLY_FROM = 50700
    MYSQL_ONLY_UNTIL = 100000


class UnreadableError(ValueError):
    """A statement, or a part of it, that is not understood."""


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    NAME = "name"
    TEXT = "text"
    BYTES = "bytes"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


cdef tuple KINDS = (Kind.END, Kind.WORD, Kind.NAME, Kind.TEXT, Kind.BYTES, Kind.NUMBER, Kind.SYMBOL)


cdef inline bint is_digit(Py_UCS4 char) noexcept nogil:
    return c'0' <= char <= c'9'


cdef inline bint is_hex(Py_UCS4 char) noexcept nogil:
    return is_digit(char) or c'a' <= char <= c'f' or c'A' <= char <= c'F'


cdef inline bint is_word(Py_UCS4 char) noexcept nogil:
    # The servers know only ASCII's digits and blanks: others are letters.
    return (
        c'a' <= char <= c'z' or c'A' <= char <= c'Z' or is_digit(char) or char == c'_' or char == c'$' or char >= 0x80
    )


cdef inline bint is_blank(Py_UCS4 char) noexcept nogil:
    return char == c' ' or 9 <= char <= 13


cdef class Token:
    cdef readonly object kind
    cdef readonly Py_ssize_t at
    cdef readonly str word
    cdef int _code
    cdef Py_ssize_t _end
    cdef str _sql
    #: the state of the lexer before it
    cdef bint _in_executable
    cdef readonly bint after_dot
    #: of a text: whether backslashes are escapes
    cdef bint _escapes

    @property
    def text(self):
        if self._code == BYTES:
            return hexadecimal(self._sql[self.at : self._end])
        if self._code == NAME or self._code == TEXT:
            return unquoted(self._sql, self.at, self._end, self._escapes and self._code == TEXT)
        return self._sql[self.at : self._end]

    @property
    def is_option(self):
        return self._code == WORD or self._code == NAME

    def __repr__(self):
        return f"Token({self.kind}, {self.text!r}, {self.at})"


cdef str hexadecimal(str literal):
    """Return the digits of x'..', 0x.., b'..' or 0b.. as whole bytes in hexadecimal."""
    digits = literal[2:].rstrip("'")
    if literal[0] in "xX" or literal[1] == "x":
        return digits if len(digits) % 2 == 0 else "0" + digits
    return int(digits, 2).to_bytes((len(digits) + 7) // 8, "big").hex() if digits else ""


cdef Py_UCS4 escaped(Py_UCS4 char) noexcept nogil:
    """Return the meaning of a character after a backslash."""
    if char == c'0':
        return 0
    if char == c'b':
        return 8
    if char == c'n':
        return 10
    if char == c'r':
        return 13
    if char == c't':
        return 9
    if char == c'Z':
        return 26
    return char


cdef str unquoted(str sql, Py_ssize_t begin, Py_ssize_t end, bint escapes):
    """Return the text between two quotes, without its escapes."""
    cdef int width = PyUnicode_KIND(sql)
    cdef void* data = PyUnicode_DATA(sql)
    cdef Py_UCS4 quote = PyUnicode_READ(width, data, begin), char
    cdef Py_ssize_t at = begin + 1, count = 0
    cdef Py_UCS4* chars
    end -= 1
    while at < end:
        char = PyUnicode_READ(width, data, at)
        if char == quote or (escapes and char == c'\\'):
            break
        at += 1
    if at == end:
        return sql[begin + 1 : end]
    chars = <Py_UCS4*>PyMem_Malloc((end - begin) * sizeof(Py_UCS4))
    if not chars:
        raise MemoryError
    try:
        at = begin + 1
        while at < end:
            char = PyUnicode_READ(width, data, at)
            if escapes and char == c'\\':
                at += 1
                char = PyUnicode_READ(width, data, at)
                if char == c'%' or char == c'_':
                    chars[count] = c'\\'
                    count += 1
                else:
                    char = escaped(char)
            elif char == quote:
                at += 1
            chars[count] = char
            count += 1
            at += 1
        return PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, chars, count)
    finally:
        PyMem_Free(chars)


cdef class Lexer:
    cdef str _sql
    cdef int _width
    cdef void* _data
    cdef Py_ssize_t _size
    #: where the semicolons at the end begin; the size if they count, or there are none
    cdef Py_ssize_t _until
    cdef bint _mariadb, _ansi_quotes, _escapes
    cdef int _version
    # ---- where reading is
    cdef Py_ssize_t _at
    cdef bint _in_executable
    #: whether the last token was a dot, and ended where reading is
    cdef bint _after_dot
    # ---- the last token
    cdef int _code
    cdef Py_ssize_t _begin
    cdef bint _was_in_executable, _was_after_dot

    def __init__(self, str sql, *, bint mariadb, int version, bint ansi_quotes, bint escapes):
        self._sql = sql
        self._width = PyUnicode_KIND(sql)
        self._data = PyUnicode_DATA(sql)
        self._size = self._until = len(sql)
        self._mariadb, self._version = mariadb, version
        self._ansi_quotes, self._escapes = ansi_quotes, escapes

    def next(self):
        self._step()
        return self._token()

    def go_to(self, Token token):
        self._at, self._in_executable, self._after_dot = token.at, token._in_executable, token.after_dot

    def trim(self):
        cdef Py_ssize_t until = -1
        while self._step() != END:
            if self._code != SYMBOL or self._char(self._begin) != c';':
                until = -1
            elif until < 0:
                until = self._begin
        self._until = self._size if until < 0 else until
        self._at, self._in_executable, self._after_dot = 0, False, False

    def skip_group(self):
        cdef Py_ssize_t depth = 1
        while depth:
            if self._step() == END:
                raise UnreadableError("a parenthesis is not closed")
            if self._code == SYMBOL:
                depth += (self._char(self._begin) == c'(') - (self._char(self._begin) == c')')

    def skip_to(self, frozenset words, bint flat):
        cdef Py_ssize_t depth = 0
        cdef bint opens
        while self._step() != END:
            opens = self._code == SYMBOL and self._char(self._begin) == c'('
            if not depth and (self._code == WORD or self._code == SYMBOL) and not (flat and self._was_after_dot):
                if self._word() in words:
                    return self._token()
            if flat and opens:
                depth += 1
            elif flat and depth and self._code == SYMBOL and self._char(self._begin) == c')':
                depth -= 1
        if depth:
            raise UnreadableError("a parenthesis is not closed")
        return self._token()

    def after_parentheses(self):
        while self._step() == SYMBOL and self._char(self._begin) == c'(':
            pass
        return self._token()

    cdef inline Py_UCS4 _char(self, Py_ssize_t at) noexcept:
        return PyUnicode_READ(self._width, self._data, at)

    cdef inline Py_UCS4 _peek(self, Py_ssize_t at) noexcept:
        """Return a character; NUL after the end."""
        return PyUnicode_READ(self._width, self._data, at) if at < self._size else 0

    cdef str _word(self):
        """Return the last token as a keyword in upper case, or a symbol; empty: it is neither."""
        cdef Py_ssize_t at
        if self._code == SYMBOL:
            return self._sql[self._begin : self._at] if self._char(self._begin) < 0x80 else ""
        if self._code != WORD or self._at - self._begin > KEYWORD_CHARS_MAX:
            return ""
        for at in range(self._begin, self._at):
            if self._char(at) >= 0x80:
                return ""
        return self._sql[self._begin : self._at].upper()

    cdef Token _token(self):
        cdef Token token = Token.__new__(Token)
        token.kind, token._code, token.at, token._end = KINDS[self._code], self._code, self._begin, self._at
        token._sql, token._escapes, token.word = self._sql, self._escapes, self._word()
        token._in_executable, token.after_dot = self._was_in_executable, self._was_after_dot
        return token

    cdef int _step(self) except -1:
        """Read the next token, and leave out the comments before it; return its code."""
        self._code = self._read()
        return self._code

    cdef int _read(self) except -1:
        cdef Py_UCS4 char, following
        while True:
            if self._at >= self._until:
                if self._in_executable:
                    raise UnreadableError("An executable comment has no end.")
                self._begin, self._was_in_executable, self._was_after_dot = self._at, False, False
                return END
            char = self._char(self._at)
            following = self._peek(self._at + 1)
            if is_blank(char):
                self._at += 1
            elif char == c'#' or (char == c'-' and following == c'-' and self._is_line_comment()):
                self._skip_line()
            elif char == c'/' and following == c'*':
                self._comment()
            elif char == c'*' and following == c'/' and self._in_executable:
                self._in_executable = False
                self._at += 2
            elif (char == c'n' or char == c'N') and following == c"'" and not self._after_dot:
                self._at += 1
            else:
                break
            self._after_dot = False
        self._begin, self._was_in_executable, self._was_after_dot = self._at, self._in_executable, self._after_dot
        self._after_dot = False
        if self._was_after_dot and is_word(char):
            # After a name's dot comes a name, also one of digits only.
            return self._skip_word()
        if char == c'"' or char == c"'" or char == c'`':
            return self._quoted(char)
        if (char == c'x' or char == c'X') and following == c"'" and self._is_hexadecimal():
            return BYTES
        if (char == c'b' or char == c'B') and following == c"'" and self._is_binary():
            return BYTES
        if char == c'0' and (following == c'x' or following == c'b') and self._is_prefixed(following):
            return BYTES
        if (is_digit(char) or (char == c'.' and self._begins_number())) and self._is_number():
            return NUMBER
        if is_word(char):
            return self._skip_word()
        self._at += 1
        self._after_dot = char == c'.'
        return SYMBOL

    cdef bint _is_line_comment(self) noexcept:
        """Return whether two dashes begin a comment: a blank, a control character or the end follows them."""
        cdef Py_UCS4 char = self._peek(self._at + 2)
        return char <= 0x20 or char == 0x7F

    cdef void _skip_line(self) noexcept:
        while self._at < self._size and self._char(self._at) != c'\n':
            self._at += 1

    cdef int _skip_word(self) noexcept:
        while self._at < self._size and is_word(self._char(self._at)):
            self._at += 1
        return WORD

    cdef int _comment(self) except -1:
        """Skip a comment, or enter one that the server executes."""
        cdef Py_ssize_t at = self._at + 2
        cdef bint vendor = self._peek(at) == c'M' and self._peek(at + 1) == c'!'
        cdef int version = 0, digits = 0
        if vendor:
            at += 1
        if self._peek(at) != c'!':
            self._at += 2
            return self._skip_comment(nested=False)
        at += 1
        while digits < 6 and is_digit(self._peek(at + digits)):
            version = version * 10 + <int>self._peek(at + digits) - 48
            digits += 1
        if digits < 5:
            digits = version = 0
        self._at = at + digits
        if self._in_executable or not self._executes(vendor, version):
            return self._skip_comment(nested=True)
        self._in_executable = True
        return 0

    cdef bint _executes(self, bint vendor, int version) noexcept:
        if vendor and not self._mariadb:
            return False
        if self._mariadb and not vendor and MYSQL_ONLY_FROM <= version < MYSQL_ONLY_UNTIL:
            return False
        return version <= self._version

    cdef int _skip_comment(self, bint nested) except -1:
        """Skip the rest of a comment; only one that is executable elsewhere may have comments in it."""
        cdef int depth = 1
        cdef Py_UCS4 char, following
        while depth:
            if self._at + 1 >= self._size:
                raise UnreadableError("A comment has no end.")
            char, following = self._char(self._at), self._char(self._at + 1)
            if char == c'*' and following == c'/':
                depth -= 1
                self._at += 2
            elif nested and depth == 1 and char == c'/' and following == c'*':
                depth += 1
                self._at += 2
            else:
                self._at += 1
        return 0

    cdef int _quoted(self, Py_UCS4 quote) except -1:
        cdef bint name = quote == c'`' or (quote == c'"' and self._ansi_quotes)
        cdef bint escapes = self._escapes and not name
        cdef Py_UCS4 char
        self._at += 1
        while self._at < self._size:
            char = self._char(self._at)
            self._at += 1
            if char == quote:
                if self._peek(self._at) != quote or self._at >= self._size:
                    return NAME if name else TEXT
                self._at += 1
            elif escapes and char == c'\\':
                self._at += 1
        raise UnreadableError("A quoted text or name has no end.")

    cdef bint _is_hexadecimal(self) noexcept:
        """Take x'..' with whole bytes; return whether it is there."""
        cdef Py_ssize_t at = self._at + 2
        while is_hex(self._peek(at)):
            at += 1
        return self._closes(at, (at - self._at) % 2 == 0)

    cdef bint _is_binary(self) noexcept:
        """Take b'..'; return whether it is there."""
        cdef Py_ssize_t at = self._at + 2
        while self._peek(at) == c'0' or self._peek(at) == c'1':
            at += 1
        return self._closes(at, True)

    cdef bint _closes(self, Py_ssize_t at, bint fits) noexcept:
        if not fits or self._peek(at) != c"'":
            return False
        self._at = at + 1
        return True

    cdef bint _is_prefixed(self, Py_UCS4 prefix) noexcept:
        """Take 0x.. or 0b.., which no other letter may follow; return whether it is there."""
        cdef Py_ssize_t at = self._at + 2
        while is_hex(self._peek(at)) if prefix == c'x' else c'0' <= self._peek(at) <= c'1':
            at += 1
        if at == self._at + 2 or is_word(self._peek(at)):
            return False
        self._at = at
        return True

    cdef bint _begins_number(self) noexcept:
        """Return whether a dot may be that of a number: it does not follow a name."""
        cdef Py_UCS4 before = self._char(self._at - 1) if self._at else 0
        return not is_word(before) and before != c'`'

    cdef bint _is_number(self) noexcept:
        """Take a number, which no letter may follow; return whether it is there."""
        cdef Py_ssize_t whole = self._digits(self._at), at = whole
        if self._peek(at) == c'.':
            at = self._digits(at + 1)
            if whole == self._at and at == whole + 1:
                return False
        if self._ends_number(self._exponent(at)) or self._ends_number(at):
            return True
        # What follows the dot is a name then.
        return whole > self._at and self._ends_number(whole)

    cdef bint _ends_number(self, Py_ssize_t at) noexcept:
        if is_word(self._peek(at)):
            return False
        self._at = at
        return True

    cdef Py_ssize_t _digits(self, Py_ssize_t at) noexcept:
        while is_digit(self._peek(at)):
            at += 1
        return at

    cdef Py_ssize_t _exponent(self, Py_ssize_t at) noexcept:
        """Return where an exponent ends; without one, where it would begin."""
        cdef Py_ssize_t digits = at + 1
        if self._peek(at) != c'e' and self._peek(at) != c'E':
            return at
        if self._peek(digits) == c'+' or self._peek(digits) == c'-':
            digits += 1
        return self._digits(digits) if is_digit(self._peek(digits)) else at
