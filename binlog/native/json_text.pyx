"""JSON: the bodies of what `json_text.pxd` declares and describes."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, strlen

from canal_group.binlog.native.decimals cimport DIGITS_MAX, PACKED_MAX, group_size, packed_size, power10
from canal_group.binlog.native.faults cimport BAD_JSON, FINE, TOO_LARGE
from canal_group.binlog.native.memory cimport Bytes, append, reserve
from canal_group.binlog.native.numbers cimport load16, load32, load64, load_big
from canal_group.binlog.native.text cimport is_utf8
from canal_group.merge.values.native.digits cimport write_digits, write_padded
from canal_group.merge.values.native.doubles cimport DOUBLE_CHARS, write_double


cdef int spend(Json* json, size_t size) noexcept nogil:
    if json.unspent < size:
        return BAD_JSON
    json.unspent -= size
    return FINE


cdef inline int put(Json* json, const char* text) noexcept nogil:
    return append(json.out, text, strlen(text))


cdef inline int put_number(Json* json, uint64_t value, bint negative, int width) noexcept nogil:
    """Print a number with leading zeros up to `width` digits, at most 20."""
    cdef uint8_t digits[24]
    cdef uint8_t* end = digits + 24
    cdef uint8_t* at = write_digits(end, value)
    while end - at < width:
        at -= 1
        at[0] = 48
    if negative:
        at -= 1
        at[0] = 45
    return append(json.out, at, end - at)


cdef inline int put_double(Json* json, uint64_t bits) noexcept nogil:
    """Print a double as a DOUBLE column is printed, and ".0" after what would otherwise be a whole number's text."""
    cdef uint8_t text[DOUBLE_CHARS]
    cdef uint8_t* end = text + DOUBLE_CHARS
    cdef uint8_t* at
    cdef size_t size
    cdef int fault
    if bits >> 52 & 0x7FF == 0x7FF:
        return BAD_JSON
    at = write_double(end, bits)
    size = end - at
    fault = append(json.out, at, size)
    if memchr(at, b".", size) != NULL or memchr(at, b"e", size) != NULL:
        return fault
    return fault or append(json.out, b".0", 2)


cdef int put_quoted(Json* json, const uint8_t* data, size_t size) noexcept nogil:
    """Print a string in quotes, with what JSON wants escaped, and nothing else."""
    cdef uint8_t* to
    cdef uint8_t byte, short
    cdef size_t index, escapes = 0
    cdef int fault
    if not is_utf8(data, size):
        return BAD_JSON
    for index in range(size):
        byte = data[index]
        if byte < 0x20:
            escapes += 1 if byte in (8, 9, 10, 12, 13) else 5
        elif byte == 0x22 or byte == 0x5C:
            escapes += 1
    if escapes > 0x7FFFFFFF:
        return TOO_LARGE
    fault = reserve(json.out, size + escapes + 2)
    if fault:
        return fault
    to = json.out.data + json.out.size
    to[0] = 0x22
    to += 1
    for index in range(size):
        byte = data[index]
        if byte >= 0x20 and byte != 0x22 and byte != 0x5C:
            to[0] = byte
            to += 1
            continue
        to[0] = 0x5C
        short = byte
        if byte == 8:
            short = b"b"
        elif byte == 9:
            short = b"t"
        elif byte == 10:
            short = b"n"
        elif byte == 12:
            short = b"f"
        elif byte == 13:
            short = b"r"
        elif byte < 0x20:
            memcpy(to + 1, b"u00", 3)
            to[4] = 48 + (byte >> 4)
            to[5] = <uint8_t>b"0123456789abcdef"[byte & 15]
            to += 6
            continue
        to[1] = short
        to += 2
    to[0] = 0x22
    json.out.size = to + 1 - json.out.data
    return FINE


cdef inline int put_base64(Json* json, int kind, const uint8_t* data, size_t size) noexcept nogil:
    """Print an opaque value as "base64:typeN:...", with a line break, escaped, after every 76 characters."""
    cdef const char* alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef size_t index, rest, line = 0
    cdef uint32_t three
    cdef uint8_t* to
    cdef int fault = put(json, b'"base64:type')
    if fault == FINE:
        fault = put_number(json, kind, False, 1)
    if fault == FINE:
        fault = append(json.out, b":", 1)
    if fault == FINE:
        fault = reserve(json.out, size // 3 * 4 + size // 57 * 2 + 5)
    if fault:
        return fault
    to = json.out.data + json.out.size
    index = 0
    while index < size:
        if line == 76:
            memcpy(to, b"\\n", 2)
            to += 2
            line = 0
        line += 4
        rest = size - index
        three = <uint32_t>data[index] << 16
        if rest > 1:
            three |= <uint32_t>data[index + 1] << 8
        if rest > 2:
            three |= data[index + 2]
        to[0] = alphabet[three >> 18]
        to[1] = alphabet[three >> 12 & 63]
        to[2] = alphabet[three >> 6 & 63] if rest > 1 else 0x3D
        to[3] = alphabet[three & 63] if rest > 2 else 0x3D
        to += 4
        index += 3
    to[0] = 0x22
    json.out.size = to + 1 - json.out.data
    return FINE


cdef inline int put_decimal(Json* json, const uint8_t* data, size_t size) noexcept nogil:
    """Print a packed DECIMAL, which follows its precision and scale, see `decimals`."""
    cdef uint8_t plain[PACKED_MAX]
    cdef uint8_t text[DIGITS_MAX + 4]
    cdef size_t precision, scale, whole, at = 0, used = 0, index, group, digits, groups, begin, first
    cdef uint32_t value
    cdef uint8_t mask
    if size < 2:
        return BAD_JSON
    precision, scale = data[0], data[1]
    if precision < 1 or precision > DIGITS_MAX or scale > precision:
        return BAD_JSON
    whole = precision - scale
    if size - 2 < packed_size(whole, scale):
        return BAD_JSON
    mask = 0 if data[2] & 0x80 else 0xFF
    plain[0] = 0
    for index in range(packed_size(whole, scale)):
        plain[index] = data[2 + index] ^ mask
    plain[0] ^= 0x80
    first = whole // 9
    groups = first + scale // 9 + 2
    for group in range(groups):
        # The leading part of a group, whole groups before and after the point, the trailing part.
        digits = whole % 9 if group == 0 else scale % 9 if group == groups - 1 else 9
        value = <uint32_t>load_big(plain + at, group_size(digits))
        if value >= power10(digits):
            return BAD_JSON
        at += group_size(digits)
        used += digits
        write_padded(text + used, value, <int>digits)
    begin = 0
    while begin < whole and text[begin] == 48:
        begin += 1
    cdef int fault = FINE
    if mask:
        fault = append(json.out, b"-", 1)
    if fault == FINE:
        fault = append(json.out, text + begin, whole - begin) if begin < whole else append(json.out, b"0", 1)
    if fault == FINE and scale:
        fault = append(json.out, b".", 1)
        if fault == FINE:
            fault = append(json.out, text + whole, scale)
    return fault


cdef inline int put_moment(Json* json, int kind, const uint8_t* data, size_t size) noexcept nogil:
    """Print a date or time: 24 bits of microseconds below what DATETIME stores, 8 bytes little-endian."""
    cdef uint64_t packed, whole, micros, months
    cdef bint negative
    cdef int fault
    if size != 8:
        return BAD_JSON
    packed = load64(data)
    negative = packed >> 63
    if negative:
        packed = ~packed + 1
    whole, micros = packed >> 24, packed & 0xFFFFFF
    fault = append(json.out, b'"', 1)
    if kind != OPAQUE_TIME:
        months = whole >> 22
        if fault == FINE:
            fault = put_number(json, months // 13, False, 4)
        if fault == FINE:
            fault = append(json.out, b"-", 1)
        if fault == FINE:
            fault = put_number(json, months % 13, False, 2)
        if fault == FINE:
            fault = append(json.out, b"-", 1)
        if fault == FINE:
            fault = put_number(json, whole >> 17 & 31, False, 2)
        if kind == OPAQUE_DATE or fault:
            return fault or append(json.out, b'"', 1)
        fault = append(json.out, b" ", 1)
        negative = False
    if fault == FINE:
        fault = put_number(json, whole >> 12 & (0x3FF if kind == OPAQUE_TIME else 31), negative, 2)
    if fault == FINE:
        fault = append(json.out, b":", 1)
    if fault == FINE:
        fault = put_number(json, whole >> 6 & 63, False, 2)
    if fault == FINE:
        fault = append(json.out, b":", 1)
    if fault == FINE:
        fault = put_number(json, whole & 63, False, 2)
    if fault == FINE:
        fault = append(json.out, b".", 1)
    if fault == FINE:
        fault = put_number(json, micros, False, 6)
    return fault or append(json.out, b'"', 1)


cdef inline int put_sized(Json* json, int kind, const uint8_t* data, size_t size, int opaque) noexcept nogil:
    """Print a string or opaque value with its length before it: 7 bits a byte, the lowest first."""
    cdef uint64_t length = 0
    cdef size_t at = 0
    cdef int fault
    while True:
        if at == size or at == 5:
            return BAD_JSON
        length |= <uint64_t>(data[at] & 0x7F) << (7 * at)
        at += 1
        if data[at - 1] < 0x80:
            break
    if size - at < length:
        return BAD_JSON
    fault = spend(json, at + length)
    if fault:
        return fault
    if kind == STRING:
        return put_quoted(json, data + at, length)
    if opaque == OPAQUE_DECIMAL:
        return put_decimal(json, data + at, length)
    if opaque in (OPAQUE_TIME, OPAQUE_DATE, OPAQUE_DATETIME, OPAQUE_TIMESTAMP):
        return put_moment(json, opaque, data + at, length)
    return put_base64(json, opaque, data + at, length)


cdef inline size_t scalar_size(int kind) noexcept nogil:
    """Return the bytes of a value of fixed size, 0 for others."""
    if kind == LITERAL:
        return 1
    if kind == INT16 or kind == UINT16:
        return 2
    if kind == INT32 or kind == UINT32:
        return 4
    if kind == INT64 or kind == UINT64 or kind == DOUBLE:
        return 8
    return 0


cdef int put_scalar(Json* json, int kind, const uint8_t* data) noexcept nogil:
    """Print a value of fixed size, whose bytes are there."""
    cdef int64_t value
    if kind == LITERAL:
        if data[0] == 0:
            return append(json.out, b"null", 4)
        if data[0] == 1:
            return append(json.out, b"true", 4)
        if data[0] == 2:
            return append(json.out, b"false", 5)
        return BAD_JSON
    if kind == DOUBLE:
        return put_double(json, load64(data))
    if kind == UINT16:
        return put_number(json, load16(data), False, 1)
    if kind == UINT32:
        return put_number(json, load32(data), False, 1)
    if kind == UINT64:
        return put_number(json, load64(data), False, 1)
    if kind == INT16:
        value = <int16_t>load16(data)
    elif kind == INT32:
        value = <int32_t>load32(data)
    else:
        value = <int64_t>load64(data)
    if value < 0:
        return put_number(json, ~<uint64_t>value + 1, True, 1)
    return put_number(json, <uint64_t>value, False, 1)


cdef int put_value(Json* json, int kind, const uint8_t* data, size_t size, int depth) noexcept nogil:
    """Print a value of a type; its bytes begin at `data`, and `size` of them may be read."""
    cdef size_t fixed = scalar_size(kind)
    if depth > DEPTH_MAX:
        return BAD_JSON
    if kind <= LARGE_ARRAY:
        return put_container(json, kind, data, size, depth)
    if fixed:
        if size < fixed:
            return BAD_JSON
        return spend(json, fixed) or put_scalar(json, kind, data)
    if kind == STRING:
        return put_sized(json, kind, data, size, 0)
    if kind == OPAQUE and size:
        return spend(json, 1) or put_sized(json, kind, data + 1, size - 1, data[0])
    return BAD_JSON


cdef inline int put_container(Json* json, int kind, const uint8_t* data, size_t size, int depth) noexcept nogil:
    """Print an object or array: count, size, the keys' entries, the values' entries, keys, values."""
    cdef bint large = kind == LARGE_OBJECT or kind == LARGE_ARRAY
    cdef bint is_object = kind == SMALL_OBJECT or kind == LARGE_OBJECT
    cdef size_t width = 4 if large else 2
    cdef size_t count, each, key_entry = width + 2 if is_object else 0, index, at, key_at, key_size
    cdef const uint8_t* entry
    cdef int fault, of
    if size < 2 * width:
        return BAD_JSON
    count = load32(data) if large else load16(data)
    if size < (load32(data + 4) if large else load16(data + 2)):
        return BAD_JSON
    each = key_entry + width + 1
    if (size - 2 * width) // each < count:
        return BAD_JSON
    fault = spend(json, 2 * width + count * each)
    if fault == FINE:
        fault = append(json.out, b"{" if is_object else b"[", 1)
    for index in range(count):
        if fault == FINE and index:
            fault = append(json.out, b", ", 2)
        if fault:
            return fault
        if is_object:
            entry = data + 2 * width + index * key_entry
            key_at = load32(entry) if large else load16(entry)
            key_size = load16(entry + width)
            if key_at > size or size - key_at < key_size:
                return BAD_JSON
            fault = spend(json, key_size) or put_quoted(json, data + key_at, key_size)
            if fault == FINE:
                fault = append(json.out, b": ", 2)
            if fault:
                return fault
        entry = data + 2 * width + count * key_entry + index * (width + 1)
        of = entry[0]
        if of in (LITERAL, INT16, UINT16) or (large and of in (INT32, UINT32)):
            if depth + 1 > DEPTH_MAX:
                return BAD_JSON
            fault = put_scalar(json, of, entry + 1)
        else:
            at = load32(entry + 1) if large else load16(entry + 1)
            if at > size:
                return BAD_JSON
            fault = put_value(json, of, data + at, size - at, depth + 1)
    return fault or append(json.out, b"}" if is_object else b"]", 1)


cdef int put_json(Bytes* out, const uint8_t* data, size_t size) noexcept nogil:
    """Append a JSON column's value as text; an empty value is JSON null, as after a non-strict insert."""
    cdef Json json
    if not size:
        return append(out, b"null", 4)
    json.out = out
    json.unspent = size - 1
    return put_value(&json, data[0], data + 1, size - 1, 0)
