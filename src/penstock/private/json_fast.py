"""The loop that reads plain JSON lines, compiled. Needs the extra `fast`.

The loop takes a line only if every reader of JSON agrees about it. All other lines are left to
`jsonl`, which knows escapes, exponents, deep values and the reasons to reject a line. Numba
compiles the loop at the first import and caches it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray
from penstock.private.person_ids import Words

_MAX_DEPTH = 32
_MAX_DIGITS = 19
"""Numbers of so many digits fit into 64 bits without a sign."""

_MAX_NUMBER_BYTES = 32
_MAX_FIELDS = 32
"""Lines of more fields are not expected to have the form of the line before."""

_SPACE, _TAB, _QUOTE, _BACKSLASH, _COMMA, _COLON = 0x20, 0x09, 0x22, 0x5C, 0x2C, 0x3A
_MINUS, _POINT, _ZERO, _NINE = 0x2D, 0x2E, 0x30, 0x39
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 0x7B, 0x7D, 0x5B, 0x5D
_BREAK, _NULL = 0x0A, 0x6E

UNKNOWN = -1
"""A bound of lines that is to be found."""

_WORD = 8
_ONE, _SEVEN, _TEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(10), np.uint64(56)
_SIGN = np.uint64(1 << 63)
_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
_PLACES = np.uint64(0x0001020304050607)
"""Times one of the lowest bits of eight bytes, this has the number of that byte at the top."""

_bytes = types.Array(types.uint8, 1, "C", readonly=True)
_read = types.Array(types.int64, 1, "C", readonly=True)
_flags = types.Array(types.boolean, 1, "C", readonly=True)
_words = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
_long = types.int64
_sought = (_bytes, _read, _flags, _flags, _long)  # names, ends, integer, free, needed
_found = (types.int64[::1], types.int64[::1], types.int64[:, ::1])  # starts, stops, form
_tuple: Any = types.UniTuple


def _blank(data: NDArray[np.uint8], at: int) -> int:
    """The place after blanks."""
    while data[at] == _SPACE or data[at] == _TAB:
        at += 1
    return at


def _text(data: NDArray[np.uint8], words: Words, at: Any) -> Any:
    """The place of the quote that ends the text from `at` on; -1 if it is no plain text.

    Eight bytes are looked at together. `found` has the highest bit of each byte that ends the
    search; the lowest of these bits is exact.
    """
    while at < len(words):
        word = words[at]
        quote, backslash = word ^ _QUOTES, word ^ _BACKSLASHES
        found = (
            ((quote - _ONES) & ~quote)
            | ((backslash - _ONES) & ~backslash)
            | ((word - _SPACES) & ~word)
        ) & _HIGHS
        if found:
            at += np.int64((((found & (~found + _ONE)) >> _SEVEN) * _PLACES) >> _TOP)
            return at if data[at] == _QUOTE else -1
        at += _WORD
    while data[at] != _QUOTE:
        if data[at] < _SPACE or data[at] == _BACKSLASH:
            return -1
        at += 1
    return at


def _number(data: NDArray[np.uint8], at: int) -> int:
    """The place after the number at `at`; -1 if it is no plain number without an exponent."""
    first = at
    if data[at] == _MINUS:
        at += 1
    digits = at
    while _ZERO <= data[at] <= _NINE:
        at += 1
    if at == digits or (data[digits] == _ZERO and at > digits + 1):
        return -1
    if data[at] == _POINT:
        at += 1
        digits = at
        while _ZERO <= data[at] <= _NINE:
            at += 1
        if at == digits:
            return -1
    return at if at - first <= _MAX_NUMBER_BYTES else -1


def _whole(data: NDArray[np.uint8], at: int, end: int) -> bool | np.bool_:
    """Whether the bytes are a whole number of 64 bits as Python writes it."""
    negative = data[at] == _MINUS
    if negative:
        at += 1
        if data[at] == _ZERO:
            return False
    if not 0 < end - at <= _MAX_DIGITS or (data[at] == _ZERO and end - at > 1):
        return False
    value = np.uint64(0)
    for place in range(at, end):
        if not _ZERO <= data[place] <= _NINE:
            return False
        value = value * _TEN + np.uint64(data[place] - _ZERO)
    return value < _SIGN or (negative and value == _SIGN)


def _literal(data: NDArray[np.uint8], at: int) -> int:
    """The place after `true`, `false` or `null`; -1 if none of them is there."""
    if data[at] == 0x74:  # each byte is compared before the next is looked at
        true = data[at + 1] == 0x72 and data[at + 2] == 0x75 and data[at + 3] == 0x65
        return at + 4 if true else -1
    if data[at] == 0x66:
        false = data[at + 1] == 0x61 and data[at + 2] == 0x6C and data[at + 3] == 0x73
        return at + 5 if false and data[at + 4] == 0x65 else -1
    if data[at] == 0x6E:
        null = data[at + 1] == 0x75 and data[at + 2] == 0x6C and data[at + 3] == 0x6C
        return at + 4 if null else -1
    return -1


blank = njit(_long(_bytes, _long), nogil=True, cache=True)(_blank)
text = njit(_long(_bytes, _words, _long), nogil=True, cache=True)(_text)
number = njit(_long(_bytes, _long), nogil=True, cache=True)(_number)
whole = njit(types.boolean(_bytes, _long, _long), nogil=True, cache=True)(_whole)
literal = njit(_long(_bytes, _long), nogil=True, cache=True)(_literal)


def _scalar(data: NDArray[np.uint8], words: Words, at: int) -> int:
    """The place after a text, a number or a literal; -1 if there is no plain one."""
    if data[at] == _QUOTE:
        at = text(data, words, at + 1)
        return at + 1 if at >= 0 else -1
    if data[at] == _MINUS or _ZERO <= data[at] <= _NINE:
        return number(data, at)
    return literal(data, at)


def _field(data: NDArray[np.uint8], words: Words, at: int) -> int:
    """The place of the value, where a field's name begins at `at`; -1 if no plain name does."""
    if data[at] != _QUOTE:
        return -1
    at = text(data, words, at + 1)
    if at < 0:
        return -1
    at = blank(data, at + 1)
    return blank(data, at + 1) if data[at] == _COLON else -1


scalar = njit(_long(_bytes, _words, _long), nogil=True, cache=True)(_scalar)
field = njit(_long(_bytes, _words, _long), nogil=True, cache=True)(_field)


def _nested(data: NDArray[np.uint8], words: Words, at: int) -> int:
    """The place after the object or list at `at`; -1 if it is no plain one, or too deep."""
    kinds = np.int64(0)  # one bit per level, 1 for an object
    depth = 0
    while True:
        opened = data[at]
        if opened in (_OPEN, _OPEN_LIST):
            if depth == _MAX_DEPTH:
                return -1
            kinds = (kinds << 1) | (opened == _OPEN)
            depth += 1
            at = blank(data, at + 1)
            if data[at] != (_CLOSE if opened == _OPEN else _CLOSE_LIST):
                if opened == _OPEN:
                    at = field(data, words, at)
                    if at < 0:
                        return -1
                continue
        else:
            at = scalar(data, words, at)
            if at < 0:
                return -1
            at = blank(data, at)
        while data[at] == (_CLOSE if kinds & 1 else _CLOSE_LIST):
            kinds >>= 1
            depth -= 1
            if not depth:
                return at + 1
            at = blank(data, at + 1)
        if data[at] != _COMMA:
            return -1
        at = blank(data, at + 1)
        if kinds & 1:
            at = field(data, words, at)
            if at < 0:
                return -1


nested = njit(_long(_bytes, _words, _long), nogil=True, cache=True)(_nested)


def _place_of(
    data: NDArray[np.uint8], first: int, end: int, names: NDArray[np.uint8], ends: IntArray
) -> int:
    """Which column has the name in these bytes; -1 for another name."""
    for column in range(len(ends) - 1):
        begin, step = ends[column], 0
        if ends[column + 1] - begin != end - first:
            continue
        while first + step < end and data[first + step] == names[begin + step]:
            step += 1
        if first + step == end:
            return column
    return -1


place_of = njit(_long(_bytes, _long, _long, _bytes, _read), nogil=True, cache=True)(_place_of)


def _begin_of(data: NDArray[np.uint8], at: int, stop: int, integer: bool, free: bool) -> int:
    """Where the value at `at` begins without its quote; -1 for null, -2 if it does not fit."""
    quoted = data[at] == _QUOTE
    if data[at] == _NULL:
        return -1
    if quoted and not integer:
        return at + 1
    fits = (free or (integer and not quoted)) and whole(data, at + quoted, stop)
    return at + quoted if fits else -2


begin_of = njit(_long(_bytes, _long, _long, types.boolean, types.boolean), nogil=True, cache=True)(
    _begin_of
)


def _line(
    data: NDArray[np.uint8],
    words: Words,
    at: int,
    names: NDArray[np.uint8],
    ends: IntArray,
    integer: BoolArray,
    free: BoolArray,
    needed: int,
    starts: IntArray,
    stops: IntArray,
    form: NDArray[np.int64],
) -> int:
    """Find the columns in the line at `at`. Returns the place after it, or -1 to leave it to
    others.

    The bytes of a column's value are from its start to its stop, without quotes; start -1 is null
    and -2 no field. A column that is not `integer` is text. In a `free` column a whole number may
    be written as text, or the other way round. The field `needed` must be there.

    `form` gets the number of fields and, for each of the first ones, where the text before its
    value begins, how long that is, and the column.
    """
    for column in range(len(starts)):
        starts[column] = -2
    before, fields = at, 0
    if data[at] != _OPEN:
        return -1
    at = blank(data, at + 1)
    more = data[at] != _CLOSE
    while more:
        name = at + 1
        at = field(data, words, at)
        if at < 0:
            return -1
        column = place_of(data, name, text(data, words, name), names, ends)
        if fields < _MAX_FIELDS:
            form[fields, 0], form[fields, 1], form[fields, 2] = before, at - before, column
        fields += 1
        first, quoted = at, data[at] == _QUOTE
        if column < 0 and (data[at] == _OPEN or data[at] == _OPEN_LIST):
            at = nested(data, words, at)
        else:
            at = scalar(data, words, at)
        if at < 0:
            return -1
        before = at
        if column >= 0:
            if starts[column] != -2:
                return -1
            stops[column] = at - quoted
            starts[column] = begin_of(data, first, stops[column], integer[column], free[column])
            if starts[column] == -2:
                return -1
        at = blank(data, at)
        more = data[at] == _COMMA
        if more:
            at = blank(data, at + 1)
    form[_MAX_FIELDS, 0] = fields
    if data[at] != _CLOSE or (needed >= 0 and starts[needed] == -2):
        return -1
    return at + 1


line = njit(_long(_bytes, _words, _long, *_sought, *_found), nogil=True, cache=True)(_line)


def _same(words: Words, at: int, theirs: int, left: int) -> bool:
    """Whether so many bytes are the same at two places."""
    while left >= _WORD:
        if words[at] != words[theirs]:
            return False
        at, theirs, left = at + _WORD, theirs + _WORD, left - _WORD
    return left == 0 or not (words[at] ^ words[theirs]) << np.uint64(8 * (_WORD - left))


same = njit(inline="always")(_same)


def _again(
    data: NDArray[np.uint8],
    words: Words,
    at: Any,
    integer: BoolArray,
    free: BoolArray,
    starts: IntArray,
    stops: IntArray,
    form: NDArray[np.int64],
) -> Any:
    """Find the columns in a line of the form of an earlier one. Returns the place after it, or -1
    if it may have another form.

    The bytes before each value must be the same as in the earlier line, so only values are looked
    at. The line must end eight bytes before the end of the data.
    """
    fields = form[_MAX_FIELDS, 0]
    if not 0 < fields <= _MAX_FIELDS:
        return -1
    for each in range(fields):
        theirs, left, column = form[each, 0], form[each, 1], form[each, 2]
        if not same(words, at, theirs, left):
            return -1
        at += left
        first = at
        if data[at] == _QUOTE:
            at += 1
            found = np.uint64(0)
            while not found:
                word = words[at]
                quote, backslash = word ^ _QUOTES, word ^ _BACKSLASHES
                found = (
                    ((quote - _ONES) & ~quote)
                    | ((backslash - _ONES) & ~backslash)
                    | ((word - _SPACES) & ~word)
                ) & _HIGHS
                at += _WORD
            at += np.int64((((found & (~found + _ONE)) >> _SEVEN) * _PLACES) >> _TOP) - _WORD
            if data[at] != _QUOTE:
                return -1
            if column >= 0:
                if integer[column] and not (free[column] and whole(data, first + 1, at)):
                    return -1
                starts[column], stops[column] = first + 1, at
            at += 1
        elif column < 0:
            opened = data[at] == _OPEN or data[at] == _OPEN_LIST
            at = nested(data, words, at) if opened else scalar(data, words, at)
            if at < 0:
                return -1
        elif integer[column] or free[column]:
            at += data[at] == _MINUS
            if not _ZERO < data[at] <= _NINE:
                return -1
            while _ZERO <= data[at] <= _NINE:
                at += 1
            if at - first >= _MAX_DIGITS and not whole(data, first, at):
                return -1
            starts[column], stops[column] = first, at
        else:
            return -1
    return at + 1 if data[at] == _CLOSE else -1


again = njit(inline="always")(_again)


def _other_form(
    data: NDArray[np.uint8],
    words: Words,
    first: int,
    last: int,
    find: bool,
    names: NDArray[np.uint8],
    ends: IntArray,
    integer: BoolArray,
    free: BoolArray,
    needed: int,
    starts: IntArray,
    stops: IntArray,
    form: NDArray[np.int64],
) -> int:
    """Find the columns in a line of another form than the one before. Returns the place of its line
    break, or -1 minus that place if the line is left to others.

    `last` is that place; with `find` it is not known.
    """
    if not find and (last < first or data[last] != _BREAK):
        return -1
    # No token goes past a line break, so no line is read beyond its own.
    end = line(data, words, first, names, ends, integer, free, needed, starts, stops, form)
    if end >= 0 and data[end] == _BREAK and (find or end == last):
        return end
    form[_MAX_FIELDS, 0] = 0
    if find:
        last = first
        while data[last] != _BREAK:
            last += 1
    return -1 - last


other_form = njit(
    _long(_bytes, _words, _long, _long, types.boolean, *_sought, *_found), nogil=True, cache=True
)(_other_form)


def _columns(  # reason: one compiled pass over all lines
    data: NDArray[np.uint8],
    words: Words,
    bounds: IntArray,
    names: NDArray[np.uint8],
    ends: IntArray,
    integer: BoolArray,
    free: BoolArray,
    needed: int,
    numbers: NDArray[np.int64],
    places: NDArray[np.int32],
    texts: NDArray[np.uint8],
    copies: Words,
    there: NDArray[np.bool_],
    sure: NDArray[np.bool_],
) -> int:
    """Read the lines between the bounds, each with its line break. Returns how many were taken.

    If the bounds after the first are `UNKNOWN`, they are found. Then every line must end eight
    bytes before the data, in the only line break that it has.

    `sure` says which lines were taken. Column by column, the values of taken lines go into
    `numbers` or, with the places where they end, into `texts`; `there` says which are not null.
    `copies` are the eight bytes from every place of `texts` on. One column of `texts` is eight
    bytes longer than the data.
    """
    size, room = len(integer), texts.shape[1]
    starts, stops = np.empty(size, np.int64), np.empty(size, np.int64)
    form = np.zeros((_MAX_FIELDS + 1, 3), np.int64)
    find = len(bounds) > 1 and bounds[1] == UNKNOWN
    taken = 0
    for row in range(len(bounds) - 1):
        first, last = bounds[row], bounds[row + 1] - 1
        found: Any = np.int64(-1)
        if find or last + _WORD < len(data):
            found = again(data, words, first, integer, free, starts, stops, form)
        if found < 0 or data[found] != _BREAK or not (find or found == last):
            found = other_form(
                data,
                words,
                first,
                last,
                find,
                names,
                ends,
                integer,
                free,
                needed,
                starts,
                stops,
                form,
            )
        if find:
            bounds[row + 1] = (found if found >= 0 else -1 - found) + 1
        sure[row] = found >= 0
        if found < 0:
            continue
        for column in range(size):
            begin, stop = starts[column], stops[column]
            there[column, taken] = begin >= 0
            if integer[column]:
                value = np.int64(0)
                if begin >= 0:
                    negative = data[begin] == _MINUS
                    for place in range(begin + negative, stop):
                        value = value * 10 - np.int64(data[place] - _ZERO)
                    if not negative:  # the smallest number has no positive counterpart
                        value = -value
                numbers[column, taken] = value
                continue
            at = np.int64(places[column, taken])
            if begin >= 0:
                end, out = at + stop - begin, column * room + at
                if stop + _WORD < len(data):
                    while begin < stop:
                        copies[out] = words[begin]
                        begin, out = begin + _WORD, out + _WORD
                else:
                    for step in range(stop - begin):
                        texts[column, at + step] = data[begin + step]
                at = end
            places[column, taken + 1] = at
        taken += 1
    return taken


columns = njit(
    _long(
        _bytes,
        _words,
        types.int64[::1],
        *_sought,
        types.int64[:, ::1],
        types.int32[:, ::1],
        types.uint8[:, ::1],
        types.Array(types.uint64, 1, "A", aligned=False),
        types.boolean[:, ::1],
        types.boolean[::1],
    ),
    nogil=True,
    cache=True,
)(_columns)
