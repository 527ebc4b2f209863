"""What a Python program reads that loads RocksDB, and how often filters answered it.

    python3 instead.py LIBRARY FOLDER
"""

import sys
from ctypes import CDLL, POINTER, Structure, byref, string_at
from ctypes import c_char_p, c_int, c_size_t, c_ubyte, c_uint64, c_void_p

lib = CDLL(sys.argv[1])


class Stats(Structure):
    _fields_ = [(f"counter_{i}", c_uint64) for i in range(9)]


def function(name, result, *arguments):
    call = getattr(lib, name)
    call.restype, call.argtypes = result, arguments
    return call


def checked(name, result, *arguments):
    call = function(name, result, *arguments, POINTER(c_void_p))

    def with_error(*values):
        error = c_void_p()
        answer = call(*values, byref(error))
        if error.value is not None:
            sys.exit(string_at(error.value).decode())
        return answer

    return with_error


options = function("rocksdb_options_create", c_void_p)()
function("rocksdb_options_set_create_if_missing", None, c_void_p, c_ubyte)(options, 1)
db = checked("rocksdb_open", c_void_p, c_void_p, c_char_p)(options, sys.argv[2].encode())
reading = function("rocksdb_readoptions_create", c_void_p)()
writing = function("rocksdb_writeoptions_create", c_void_p)()
put = checked("rocksdb_put", None, c_void_p, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t)
get = checked("rocksdb_get", c_void_p, c_void_p, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))
keys = [str(i).encode() for i in range(100)]
for key in keys[::2]:
    put(db, writing, key, len(key), key, len(key))
filters = function("lsm_sieve_of", c_void_p, c_void_p)(db)
if filters is not None:
    function("lsm_sieve_wait_until_complete", c_ubyte, c_void_p, c_uint64)(filters, 60_000)
there = (get(db, reading, key, len(key), byref(c_size_t())) is not None for key in keys)
print("".join(str(int(is_there)) for is_there in there))
answered = function("lsm_sieve_stats", Stats, c_void_p)(filters).counter_0
print("no filters" if filters is None else answered, file=sys.stderr)
function("rocksdb_close", None, c_void_p)(db)
