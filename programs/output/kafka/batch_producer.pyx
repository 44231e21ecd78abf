"""Batches of messages into librdkafka, without a step of Python for each.

`batch_producer.pyi` describes its interface. confluent_kafka makes the producer and keeps its transactions, but has
no function for many messages with headers. A plugin of librdkafka sees each client that is made with it: this
module is one. It remembers the client, and the first message that was not delivered. What a thread of librdkafka
calls here is C without Python.

librdkafka's functions are those that confluent_kafka has loaded; what is used of its interface has been the same
since its version 1.6.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport strncpy
from posix.dlfcn cimport RTLD_LAZY, dlopen, dlsym

cimport cython

import os
from threading import Lock

from canal_group.merge.rows.native.text cimport Column, Values, is_null

cdef extern from *:
    """
    /* Whoever sees a value that was set sees what was written before it. */
    #define CANAL_GROUP_TAKE(flag) (!__atomic_exchange_n(flag, 1, __ATOMIC_ACQ_REL))
    #define CANAL_GROUP_SET(flag, value) __atomic_store_n(flag, value, __ATOMIC_RELEASE)
    #define CANAL_GROUP_GET(flag) __atomic_load_n(flag, __ATOMIC_ACQUIRE)
    """
    bint take "CANAL_GROUP_TAKE" (int32_t* flag) noexcept nogil
    void put "CANAL_GROUP_SET" (int32_t* flag, int32_t value) noexcept nogil
    int32_t got "CANAL_GROUP_GET" (int32_t* flag) noexcept nogil

cdef enum:
    #: kinds of librdkafka's arguments
    TOPIC = 2
    PARTITION = 3
    VALUE = 4
    KEY = 5
    FLAGS = 7
    HEADER = 9
    #: the flag with which it copies values
    COPY = 2
    #: arguments of a message, before its headers
    ARGUMENTS = 5
    #: bytes of a topic's name that are remembered, with the zero behind
    TOPIC_BYTES = 513
    INVALID_ARGUMENT = -186


cdef struct _Bytes:
    const void* begin
    size_t size


cdef struct _Header:
    const char* name
    const void* begin
    Py_ssize_t size


cdef union _Of:
    const void* pointer
    int32_t number
    _Bytes bytes
    _Header header
    char[64] room


#: rd_kafka_vu_t
cdef struct _Argument:
    int kind
    _Of of


#: the first members of rd_kafka_message_t
cdef struct _Delivered:
    int code
    void* topic


#: a client, and the first message that it did not deliver
cdef struct _Client:
    void* handle
    int32_t is_taken
    #: 0: none, or its topic is not written yet
    int32_t code
    char[TOPIC_BYTES] topic


ctypedef int (*_OnNew)(void*, const void*, void*, char*, size_t) noexcept nogil
ctypedef int (*_OnDelivered)(void*, _Delivered*, void*) noexcept nogil
ctypedef int (*_OnConfDestroy)(void*) noexcept nogil


#: librdkafka's functions, in the order of `_FUNCTIONS`
cdef struct _Library:
    void* (*produce)(void*, const _Argument*, size_t) noexcept nogil
    int (*code)(const void*) noexcept nogil
    const char* (*text)(const void*) noexcept nogil
    bint (*is_fatal)(const void*) noexcept nogil
    void (*forget)(void*) noexcept nogil
    void* (*topic)(void*, const char*, void*) noexcept nogil
    const char* (*name)(const void*) noexcept nogil
    void (*leave)(void*) noexcept nogil
    int (*on_new)(void*, const char*, _OnNew, void*) noexcept nogil
    int (*on_delivered)(void*, const char*, _OnDelivered, void*) noexcept nogil
    int (*on_conf_destroy)(void*, const char*, _OnConfDestroy, void*) noexcept nogil


cdef tuple _FUNCTIONS = (
    b"rd_kafka_produceva",
    b"rd_kafka_error_code",
    b"rd_kafka_error_string",
    b"rd_kafka_error_is_fatal",
    b"rd_kafka_error_destroy",
    b"rd_kafka_topic_new",
    b"rd_kafka_topic_name",
    b"rd_kafka_topic_destroy",
    b"rd_kafka_conf_interceptor_add_on_new",
    b"rd_kafka_interceptor_add_on_acknowledgement",
    b"rd_kafka_conf_interceptor_add_on_conf_destroy",
)
cdef _Library library
#: the client that was made last; `_making` is held from before it is made until it is taken
cdef _Client* made = NULL
_making = Lock()

cdef char* NAME = b"canal-group"
#: what an empty value points to: librdkafka takes none for a value that is missing
cdef uint8_t nothing = 0


# ---- what librdkafka calls


cdef public int conf_init(void* conf, void** own, char* error, size_t size) noexcept nogil:
    """Make what will know a client. Its configuration is destroyed last, when the client has no thread any more."""
    cdef _Client* client = <_Client*>calloc(1, sizeof(_Client))
    cdef int code
    if client == NULL:
        return INVALID_ARGUMENT
    code = library.on_conf_destroy(conf, NAME, _on_conf_destroy, client)
    if code:
        free(client)
        return code
    return library.on_new(conf, NAME, _on_new, client)


cdef int _on_new(void* handle, const void* conf, void* own, char* error, size_t size) noexcept nogil:
    global made
    cdef _Client* client = <_Client*>own
    cdef int code = library.on_delivered(handle, NAME, _on_delivered, client)
    if not code:
        client.handle, made = handle, client
    return code


cdef int _on_delivered(void* handle, _Delivered* message, void* own) noexcept nogil:
    cdef _Client* client = <_Client*>own
    if message.code and take(&client.is_taken):
        if message.topic != NULL:
            strncpy(client.topic, library.name(message.topic), TOPIC_BYTES - 1)
        put(&client.code, message.code)
    return 0


cdef int _on_conf_destroy(void* own) noexcept nogil:
    free(own)
    return 0


# ---- what Python calls


cdef int _load(str path) except -1:
    """Find the functions among those that confluent_kafka's module has loaded."""
    global library
    cdef void* opened = dlopen(os.fsencode(path), RTLD_LAZY)
    cdef _Library found
    cdef void** functions = <void**>&found
    if opened == NULL:
        raise OSError(f"{path} cannot be loaded")
    for index, name in enumerate(_FUNCTIONS):
        functions[index] = dlsym(opened, name)
        if functions[index] == NULL:
            raise OSError(f"{path} has no function {name.decode()}")
    library = found
    return 0


cdef inline _Bytes _bytes(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef _Bytes found
    found.begin, found.size = NULL, 0
    if not is_null(column, row):
        found.size = column.offsets[row + 1] - column.offsets[row]
        found.begin = column.data + column.offsets[row] if found.size else &nothing
    return found


@cython.final
cdef class _Batch:
    """Messages that are being handed over."""

    #: what the pointers point into
    cdef tuple owners
    cdef Py_ssize_t rows, topic_count, header_count
    #: names of topics, NULL for one that librdkafka cannot have, and its handles, NULL until they are needed
    cdef const char** topics
    cdef void** handles
    cdef Column value, key
    cdef bint has_keys
    cdef const char** names
    cdef Column* headers
    #: of one message
    cdef _Argument* arguments

    def __cinit__(self, topics, Values values, Values keys, headers):
        cdef Values column
        cdef bytes name
        topics, names = [each.encode() for each in topics], [each.encode() for each, _ in headers]
        columns = [each for _, each in headers]
        self.owners = (topics, names, columns, values, keys)
        self.rows, self.topic_count, self.header_count = values.rows, len(topics), len(names)
        for column in [values, *columns] if keys is None else [values, keys, *columns]:
            if column.rows != self.rows or column.kind != "text":
                raise ValueError("columns of messages that are not texts of one length")
        self.topics = <const char**>calloc(self.topic_count or 1, sizeof(char*))
        self.handles = <void**>calloc(self.topic_count or 1, sizeof(void*))
        self.names = <const char**>calloc(self.header_count or 1, sizeof(char*))
        self.headers = <Column*>calloc(self.header_count or 1, sizeof(Column))
        self.arguments = <_Argument*>calloc(ARGUMENTS + self.header_count, sizeof(_Argument))
        if not (self.topics and self.handles and self.names and self.headers and self.arguments):
            raise MemoryError
        for index in range(self.topic_count):
            name = topics[index]
            if b"\0" not in name:
                self.topics[index] = name
        self.value, self.has_keys = values.column, keys is not None
        if self.has_keys:
            self.key = keys.column
        for index in range(self.header_count):
            name, column = names[index], columns[index]
            self.names[index], self.headers[index] = name, column.column
        self.arguments[0].kind, self.arguments[0].of.number = FLAGS, COPY

    def __dealloc__(self):
        if self.handles != NULL:
            for index in range(self.topic_count):
                if self.handles[index] != NULL:
                    library.leave(self.handles[index])
        free(self.topics)
        free(self.handles)
        free(self.names)
        free(self.headers)
        free(self.arguments)

    cdef int produce(self, void* client, Py_ssize_t row, int32_t topic, int32_t partition, void** error) noexcept nogil:
        """Hand over one message; return a code of librdkafka's, and its error if it says more."""
        cdef _Argument* at = self.arguments + 1
        cdef Py_ssize_t index
        cdef _Bytes value
        if self.handles[topic] == NULL:
            if self.topics[topic] != NULL:
                self.handles[topic] = library.topic(client, self.topics[topic], NULL)
            if self.handles[topic] == NULL:
                return INVALID_ARGUMENT
        at.kind, at.of.pointer = TOPIC, self.handles[topic]
        at += 1
        at.kind, at.of.number = PARTITION, partition
        at += 1
        at.kind, at.of.bytes = VALUE, _bytes(&self.value, row)
        at += 1
        if self.has_keys:
            at.kind, at.of.bytes = KEY, _bytes(&self.key, row)
            at += 1
        for index in range(self.header_count):
            value = _bytes(&self.headers[index], row)
            if value.begin != NULL:
                at.kind, at.of.header.name = HEADER, self.names[index]
                at.of.header.begin, at.of.header.size = value.begin, value.size
                at += 1
        error[0] = library.produce(client, self.arguments, at - self.arguments)
        return 0 if error[0] == NULL else library.code(error[0])


cdef class BatchProducer:
    cdef readonly object producer
    cdef _Client* client

    def __cinit__(self, str library_path, make):
        global made
        with _making:
            if library.produce == NULL:
                _load(library_path)
            made = NULL
            self.producer = make(__file__)
            self.client, made = made, NULL
        if self.client == NULL:
            raise OSError(f"{library_path} loads no plugins")

    def undelivered(self):
        cdef int32_t code = got(&self.client.code)
        return (code, (<bytes>self.client.topic).decode(errors="replace")) if code else None

    def produce(self, Py_ssize_t first, topics, topic, partition, Values values, Values keys, headers):
        cdef const int32_t[::1] numbers = topic
        cdef const int32_t[::1] partitions = partition
        cdef _Batch batch = _Batch(topics, values, keys, headers)
        cdef Py_ssize_t row = first
        cdef void* error = NULL
        cdef int code = 0
        if first < 0 or numbers.shape[0] != batch.rows or partitions.shape[0] != batch.rows:
            raise ValueError("columns of messages that have not one length")
        with nogil:
            while row < batch.rows and not code:
                if not 0 <= numbers[row] < batch.topic_count:
                    break
                code = batch.produce(self.client.handle, row, numbers[row], partitions[row], &error)
                row += not code
        if error == NULL:
            if row < batch.rows and not code:
                raise ValueError("a message of a topic that has no name")
            return row, code, "", False
        text, is_fatal = (<bytes>library.text(error)).decode(errors="replace"), library.is_fatal(error)
        library.forget(error)
        return row, code, text, bool(is_fatal)
