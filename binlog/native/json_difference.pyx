"""JSON differences: the bodies of what `json_difference.pxd` declares and describes."""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memset

from canal_group.binlog.native.faults cimport BAD_DIFFERENCE, BAD_JSON, FINE
from canal_group.binlog.native.json_text cimport (
    DEPTH_MAX,
    INT16,
    INT32,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    SMALL_OBJECT,
    UINT16,
    UINT32,
    put_json,
    put_quoted,
    put_scalar,
    put_value,
    spend,
)
from canal_group.binlog.native.memory cimport Bytes, append, reserve
from canal_group.binlog.native.numbers cimport load16, load32, load_little


cdef inline Node* node_of(Document* document, uint32_t index) noexcept nogil:
    """Return a node; the pointer holds until one is added."""
    return <Node*>document.nodes.data + index


cdef inline int add_node(Document* document, uint32_t* index) noexcept nogil:
    cdef int fault = reserve(&document.nodes, sizeof(Node))
    if fault:
        return fault
    memset(document.nodes.data + document.nodes.size, 0, sizeof(Node))
    index[0] = <uint32_t>(document.nodes.size // sizeof(Node))
    document.nodes.size += sizeof(Node)
    return FINE


cdef inline bint is_object(const Node* node) noexcept nogil:
    return node.kind == SMALL_OBJECT or node.kind == LARGE_OBJECT


cdef int take_packed(Span* span, size_t* value) noexcept nogil:
    """Read a length: one byte up to 250, or 2, 3 or 8 bytes after a 252, 253 or 254."""
    cdef size_t width
    if span.at == span.end:
        return BAD_DIFFERENCE
    value[0] = span.at[0]
    span.at += 1
    if value[0] < 251:
        return FINE
    width = 2 if value[0] == 252 else 3 if value[0] == 253 else 8 if value[0] == 254 else 0
    if not width or <size_t>(span.end - span.at) < width:
        return BAD_DIFFERENCE
    value[0] = load_little(span.at, width)
    span.at += width
    return FINE


cdef inline int take_span(Span* span, Span* part) noexcept nogil:
    """Read a part with a packed length before it."""
    cdef size_t size = 0
    cdef int fault = take_packed(span, &size)
    if fault:
        return fault
    if <size_t>(span.end - span.at) < size:
        return BAD_DIFFERENCE
    part.at = span.at
    span.at += size
    part.end = span.at
    return FINE


cdef inline int take_number(Span* path, size_t* number) noexcept nogil:
    cdef const uint8_t* begin = path.at
    number[0] = 0
    while path.at < path.end and 48 <= path.at[0] <= 57:
        number[0] = number[0] * 10 + path.at[0] - 48
        if number[0] >> 32:
            return BAD_DIFFERENCE
        path.at += 1
    return FINE if path.at > begin else BAD_DIFFERENCE


cdef inline int take_cell(Span* path, Leg* leg) noexcept nogil:
    """Read "[3]", "[last]" or "[last-3]" after its bracket."""
    cdef int fault = FINE
    leg.is_cell, leg.index, leg.name, leg.name_size = True, 0, NULL, 0
    leg.from_end = path.end - path.at > 4 and memcmp(path.at, b"last", 4) == 0
    if leg.from_end:
        path.at += 4
    if not leg.from_end or path.at[0] == 0x2D:
        path.at += leg.from_end
        fault = take_number(path, &leg.index)
    if fault or path.at == path.end or path.at[0] != 0x5D:
        return BAD_DIFFERENCE
    path.at += 1
    return FINE


cdef inline int hex_digit(uint8_t byte) noexcept nogil:
    """Return a digit's value; 16 if it is not a digit."""
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 0x20
    return byte - 87 if 97 <= byte <= 102 else 16


cdef inline int unescape(Document* document, Span* name, Leg* leg) noexcept nogil:
    """Keep a member's name without its escapes; it is not longer than with them."""
    cdef uint8_t* begin = document.names.data + document.names.size
    cdef uint8_t* to = begin
    cdef uint8_t byte
    cdef uint32_t code
    cdef int digit, index
    while name.at < name.end:
        byte = name.at[0]
        name.at += 1
        if byte != 0x5C:
            to[0] = byte
            to += 1
            continue
        if name.at == name.end:
            return BAD_DIFFERENCE
        byte = name.at[0]
        name.at += 1
        if byte == b"u":
            if name.end - name.at < 4:
                return BAD_DIFFERENCE
            code = 0
            for index in range(4):
                digit = hex_digit(name.at[index])
                if digit > 15:
                    return BAD_DIFFERENCE
                code = code << 4 | <uint32_t>digit
            name.at += 4
            if 0xD800 <= code <= 0xDFFF:  # the server escapes control characters, and nothing else so
                return BAD_DIFFERENCE
            if code < 0x80:
                to[0] = <uint8_t>code
                to += 1
            elif code < 0x800:
                to[0], to[1] = <uint8_t>(0xC0 | code >> 6), <uint8_t>(0x80 | code & 0x3F)
                to += 2
            else:
                to[0], to[1] = <uint8_t>(0xE0 | code >> 12), <uint8_t>(0x80 | code >> 6 & 0x3F)
                to[2] = <uint8_t>(0x80 | code & 0x3F)
                to += 3
            continue
        if byte == b"b":
            byte = 8
        elif byte == b"t":
            byte = 9
        elif byte == b"n":
            byte = 10
        elif byte == b"f":
            byte = 12
        elif byte == b"r":
            byte = 13
        elif byte != 0x22 and byte != 0x5C and byte != 0x2F:
            return BAD_DIFFERENCE
        to[0] = byte
        to += 1
    leg.name, leg.name_size = begin, to - begin
    document.names.size += leg.name_size
    return FINE


cdef inline int take_member(Document* document, Span* path, Leg* leg) noexcept nogil:
    """Read a member's name after its dot, in quotes or without."""
    cdef Span name
    cdef bint escaped = False, quoted = path.at < path.end and path.at[0] == 0x22
    path.at += quoted
    name.at = path.at
    while path.at < path.end:
        if path.at[0] == 0x5C:
            escaped = True
            path.at += 1
            if path.at == path.end:
                return BAD_DIFFERENCE
        elif path.at[0] == 0x22 if quoted else path.at[0] in (0x2E, 0x5B):
            break
        path.at += 1
    name.end = path.at
    if quoted:
        if path.at == path.end:
            return BAD_DIFFERENCE
        path.at += 1
    elif name.at == name.end:
        return BAD_DIFFERENCE
    leg.is_cell, leg.from_end, leg.index = False, False, 0
    if escaped:
        return unescape(document, &name, leg)
    leg.name, leg.name_size = name.at, name.end - name.at
    return FINE


cdef inline int take_leg(Document* document, Span* path, Leg* leg) noexcept nogil:
    """Read one step of a path, of which there is one at least."""
    cdef uint8_t first = path.at[0]
    path.at += 1
    if first == 0x5B:
        return take_cell(path, leg)
    if first == 0x2E:
        return take_member(document, path, leg)
    return BAD_DIFFERENCE


cdef inline int open_node(Document* document, uint32_t index) noexcept nogil:
    """Make nodes of an object's or array's values; see `json_text.put_container` for its layout."""
    cdef Node node = node_of(document, index)[0]
    cdef Node* child
    cdef bint large = node.kind == LARGE_OBJECT or node.kind == LARGE_ARRAY, has_names = is_object(&node)
    cdef size_t width = 4 if large else 2
    cdef size_t name_entry = width + 2 if has_names else 0, count, each, nth, at
    cdef const uint8_t* entry
    cdef uint32_t added = 0, last = 0
    cdef int fault
    if node.state == OPEN:
        return FINE
    if node.state == INLINED or node.kind > LARGE_ARRAY:
        return BAD_DIFFERENCE
    if node.size < 2 * width:
        return BAD_JSON
    count = load32(node.data) if large else load16(node.data)
    if node.size < (load32(node.data + 4) if large else load16(node.data + 2)):
        return BAD_JSON
    each = name_entry + width + 1
    if (node.size - 2 * width) // each < count:
        return BAD_JSON
    fault = spend(&document.json, 2 * width + count * each)
    for nth in range(count):
        fault = fault or add_node(document, &added)
        if fault:
            return fault
        child = node_of(document, added)
        if has_names:
            entry = node.data + 2 * width + nth * name_entry
            at = load32(entry) if large else load16(entry)
            child.name_size = load16(entry + width)
            if at > node.size or node.size - at < child.name_size:
                return BAD_JSON
            child.name = node.data + at
            fault = spend(&document.json, child.name_size)
            if fault:
                return fault
        entry = node.data + 2 * width + count * name_entry + nth * (width + 1)
        child.kind = entry[0]
        if child.kind in (LITERAL, INT16, UINT16) or (large and child.kind in (INT32, UINT32)):
            child.state, child.data, child.size = INLINED, entry + 1, width
        else:
            at = load32(entry + 1) if large else load16(entry + 1)
            if at > node.size:
                return BAD_JSON
            child.data, child.size = node.data + at, node.size - at
        if last:
            node_of(document, last).next = added
        else:
            node_of(document, index).first = added
        last = added
    node_of(document, index).state = OPEN
    node_of(document, index).count = <uint32_t>count
    return fault


cdef inline bint is_before(const Node* node, const Leg* leg) noexcept nogil:
    """Whether an object has a member before one of this name: shorter names first, then by their bytes."""
    if node.name_size != leg.name_size:
        return node.name_size < leg.name_size
    return memcmp(node.name, leg.name, leg.name_size) < 0


cdef inline int find(
    Document* document, uint32_t container, const Leg* leg, uint32_t* before, uint32_t* member
) noexcept nogil:
    """Find a value in an open container.

    `member` is its node, 0 if there is none. `before` is the node before it, or before its insertion point; 0: none.
    """
    cdef Node* node = node_of(document, container)
    cdef uint32_t index = node.first, last = 0, position
    before[0] = member[0] = 0
    if is_object(node) == leg.is_cell:
        return BAD_DIFFERENCE
    if leg.is_cell:
        if leg.from_end:
            position = node.count - 1 - <uint32_t>leg.index if leg.index < node.count else 0
        else:
            position = <uint32_t>leg.index if leg.index < node.count else node.count
        while position:
            before[0] = index
            index = node_of(document, index).next
            position -= 1
        member[0] = index if leg.index < node_of(document, container).count else 0
        return FINE
    while index:
        node = node_of(document, index)
        if node.name_size == leg.name_size and memcmp(node.name, leg.name, leg.name_size) == 0:
            before[0], member[0] = last, index
            return FINE
        if is_before(node, leg):
            before[0] = index
        last, index = index, node.next
    return FINE


cdef inline void fill(Node* node, const Span* value) noexcept nogil:
    """Make a node a value with its type before it."""
    node.kind, node.state = value.at[0], STORED
    node.data, node.size = value.at + 1, value.end - value.at - 1
    node.first = node.count = 0


cdef inline int insert(
    Document* document, uint32_t container, const Leg* leg, uint32_t before, const Span* value
) noexcept nogil:
    cdef uint32_t added = 0
    cdef Node* node
    cdef int fault = add_node(document, &added)
    if fault:
        return fault
    node = node_of(document, added)
    fill(node, value)
    node.name, node.name_size = leg.name, leg.name_size
    if before:
        node.next = node_of(document, before).next
        node_of(document, before).next = added
    else:
        node.next = node_of(document, container).first
        node_of(document, container).first = added
    node_of(document, container).count += 1
    return FINE


cdef inline void remove(Document* document, uint32_t container, uint32_t before, uint32_t member) noexcept nogil:
    if before:
        node_of(document, before).next = node_of(document, member).next
    else:
        node_of(document, container).first = node_of(document, member).next
    node_of(document, container).count -= 1


cdef inline int apply(Document* document, int operation, Span* path, const Span* value) noexcept nogil:
    """Change a document at a path; refuse if a required value is missing, or one exists that must not."""
    cdef Leg leg
    cdef uint32_t container = 0, member = 0, before = 0
    cdef int fault
    if path.at == path.end or path.at[0] != 0x24:
        return BAD_DIFFERENCE
    path.at += 1
    if path.at == path.end:  # a document as a whole is not a difference
        return BAD_DIFFERENCE
    while True:
        fault = take_leg(document, path, &leg)
        fault = fault or open_node(document, container)
        fault = fault or find(document, container, &leg, &before, &member)
        if fault or path.at == path.end:
            break
        if not member:
            return BAD_DIFFERENCE
        container = member
    if fault:
        return fault
    if operation == INSERT_INTO:
        if member and not leg.is_cell:
            return BAD_DIFFERENCE
        return insert(document, container, &leg, before, value)
    if not member:
        return BAD_DIFFERENCE
    if operation == REPLACE:
        fill(node_of(document, member), value)
    else:
        remove(document, container, before, member)
    return FINE


cdef inline int put_node(Document* document, uint32_t index, int depth) noexcept nogil:
    """Print a node."""
    cdef Node node = node_of(document, index)[0]
    cdef bint has_names = is_object(&node)
    cdef int fault
    if depth > DEPTH_MAX:
        return BAD_JSON
    if node.state == INLINED:
        return put_scalar(&document.json, node.kind, node.data)
    if node.state == STORED:
        return put_value(&document.json, node.kind, node.data, node.size, depth)
    fault = append(document.json.out, b"{" if has_names else b"[", 1)
    index = node.first
    while index and fault == FINE:
        if index != node.first:
            fault = append(document.json.out, b", ", 2)
        if has_names and fault == FINE:
            fault = put_quoted(
                &document.json, node_of(document, index).name, node_of(document, index).name_size
            )
            fault = fault or append(document.json.out, b": ", 2)
        fault = fault or put_node(document, index, depth + 1)
        index = node_of(document, index).next
    return fault or append(document.json.out, b"}" if has_names else b"]", 1)


cdef int put_changed(Document* document, Bytes* out, const Span* value, Span* differences) noexcept nogil:
    """Append a JSON column's value as text, with differences applied to it in their order.

    Args:
        document: memory that may have been used before.
        out: where it goes.
        value: the column's value before the change.
        differences: their bytes; none: the value is as before.
    """
    cdef Span path, new
    cdef uint32_t root = 0
    cdef int operation, fault
    new.at = new.end = NULL
    if differences.at == differences.end:
        return put_json(out, value.at, value.end - value.at)
    if value.at == value.end:  # JSON null, in which no path leads anywhere
        return BAD_DIFFERENCE
    document.nodes.size = document.names.size = 0
    document.json.out = out
    document.json.unspent = value.end - value.at - 1
    fault = reserve(&document.names, differences.end - differences.at)
    fault = fault or add_node(document, &root)
    if fault:
        return fault
    fill(node_of(document, root), value)
    while differences.at < differences.end:
        operation = differences.at[0]
        differences.at += 1
        if operation > REMOVE:
            return BAD_DIFFERENCE
        fault = take_span(differences, &path)
        if fault == FINE and operation != REMOVE:
            fault = take_span(differences, &new)
            if fault == FINE and new.at == new.end:
                fault = BAD_DIFFERENCE
            document.json.unspent += new.end - new.at if fault == FINE else 0
        fault = fault or apply(document, operation, &path, &new)
        if fault:
            return fault
    return put_node(document, root, 0)
