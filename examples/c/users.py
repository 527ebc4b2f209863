"""A database of users, opened with filters and used by RocksDB's own functions, over ctypes.

    python3 users.py /tmp/users [/usr/local/lib/liblsm_sieve.so]
"""

import sys
from ctypes import CDLL, POINTER, Structure, byref, string_at
from ctypes import c_char_p, c_double, c_size_t, c_ubyte, c_uint64, c_void_p


class Stats(Structure):
    NAMES = (
        "absent found found_unchecked false_positives uncovered not_consulted audited"
        " false_negatives prefixes_absent"
    )
    _fields_ = [(name, c_uint64) for name in NAMES.split()]


path = sys.argv[1] if len(sys.argv) > 1 else "/tmp/users"
lib = CDLL(sys.argv[2] if len(sys.argv) > 2 else "liblsm_sieve.so")


def function(name, result, *arguments):
    call = getattr(lib, name)
    call.restype, call.argtypes = result, arguments
    return call


def checked(name, result, *arguments):
    """A function whose last argument is the place for an error text."""
    call = function(name, result, *arguments, POINTER(c_void_p))

    def with_error(*values):
        error = c_void_p()
        answer = call(*values, byref(error))
        if error.value is not None:
            text = string_at(error.value).decode()
            free(error)
            raise OSError(text)
        return answer

    return with_error


free = function("rocksdb_free", None, c_void_p)
options_create = function("rocksdb_options_create", c_void_p)
options_destroy = function("rocksdb_options_destroy", None, c_void_p)
set_create_if_missing = function("rocksdb_options_set_create_if_missing", None, c_void_p, c_ubyte)
settings_create = function("lsm_sieve_options_create", c_void_p)
settings_destroy = function("lsm_sieve_options_destroy", None, c_void_p)
set_rate = checked("lsm_sieve_options_set_false_positive_rate", None, c_void_p, c_double)
open_db = checked("lsm_sieve_open", c_void_p, c_void_p, c_void_p, c_char_p)
filters_of = function("lsm_sieve_of", c_void_p, c_void_p)
wait_until_complete = function("lsm_sieve_wait_until_complete", c_ubyte, c_void_p, c_uint64)
stats = function("lsm_sieve_stats", Stats, c_void_p)
close = function("rocksdb_close", None, c_void_p)
reading = function("rocksdb_readoptions_create", c_void_p)()
writing = function("rocksdb_writeoptions_create", c_void_p)()
db_put = checked(
    "rocksdb_put", None, c_void_p, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t
)
db_get = checked(
    "rocksdb_get", c_void_p, c_void_p, c_void_p, c_char_p, c_size_t, POINTER(c_size_t)
)


def put(db, key, value):
    db_put(db, writing, key, len(key), value, len(value))


def get(db, key):
    size = c_size_t()
    value = db_get(db, reading, key, len(key), byref(size))
    if value is None:
        return None
    copy = string_at(value, size.value)
    free(value)
    return copy


options = options_create()
set_create_if_missing(options, 1)
settings = settings_create()
set_rate(settings, 0.001)
db = open_db(options, settings, path.encode())
settings_destroy(settings)
options_destroy(options)

put(db, b"ada", b"1815")
wait_until_complete(filters_of(db), 60_000)
for key in (b"ada", b"charles"):
    print(f"{key.decode()}: {(get(db, key) or b'absent').decode()}")
print(f"answered without the engine: {stats(filters_of(db)).absent}")
close(db)
