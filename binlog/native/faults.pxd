"""Faults: the errors that the bytes of a rows event can have. `images.FAULTS` has their names."""

cdef enum Fault:
    FINE
    NO_MEMORY
    #: bytes end inside a value
    TRUNCATED
    #: a column would hold more than 2 GiB in one chunk
    TOO_LARGE
    #: the fixed part does not fit the table map
    COLUMN_COUNT
    #: the fixed part contradicts itself
    BAD_HEAD
    BAD_DECIMAL
    BAD_ENUM
    #: a list whose size is not a multiple of its elements' size
    BAD_LIST
    BAD_JSON
    #: a JSON difference that cannot be read, or that does not fit its document
    BAD_DIFFERENCE
    #: a JSON difference without the document it is about
    NO_DOCUMENT
    #: values are stored in an unknown way
    VALUE_OPTIONS
    BAD_MOMENT
    BAD_PACKED
    #: a row would hold more bytes than a row may
    ROW_TOO_LARGE
