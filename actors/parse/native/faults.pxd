"""Faults: what can be wrong with the bytes of a rows event. `images.FAULTS` has their names."""

cdef enum Fault:
    FINE
    NO_MEMORY
    #: bytes end inside a value
    TRUNCATED
    #: a column would hold more than 2 GiB in one chunk
    TOO_LARGE
    #: the fixed part does not fit the table map
    COLUMN_COUNT
    #: an image does not hold every column
    PARTIAL_IMAGE
    #: the fixed part contradicts itself
    BAD_HEAD
    BAD_DECIMAL
    BAD_ENUM
    BAD_VECTOR
    BAD_JSON
    BAD_MOMENT
    BAD_PACKED
