// A database of users, from Java 22 or later over the foreign function and memory API.
//
//   java --enable-native-access=ALL-UNNAMED Users.java /tmp/users /usr/local/lib/liblsm_sieve.so
import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

class Users {
    static final Linker LINKER = Linker.nativeLinker();
    static SymbolLookup library;

    static MethodHandle function(String name, MemoryLayout result, MemoryLayout... arguments) {
        var type = result == null ? FunctionDescriptor.ofVoid(arguments)
                                  : FunctionDescriptor.of(result, arguments);
        return LINKER.downcallHandle(library.find(name).orElseThrow(), type);
    }

    static void check(MemorySegment failure) {
        var text = failure.get(ADDRESS, 0);
        if (text.address() != 0) throw new RuntimeException(text.reinterpret(4096).getString(0));
    }

    public static void main(String[] arguments) throws Throwable {
        try (var arena = Arena.ofConfined()) {
            library = SymbolLookup.libraryLookup(Path.of(arguments[1]), arena);
            var failure = arena.allocate(ADDRESS);
            var options = (MemorySegment) function("rocksdb_options_create", ADDRESS).invokeExact();
            function("rocksdb_options_set_create_if_missing", null, ADDRESS, JAVA_BYTE)
                .invokeExact(options, (byte) 1);
            var open = function("lsm_sieve_open", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
            var db = (MemorySegment) open.invokeExact(
                options, MemorySegment.NULL, arena.allocateFrom(arguments[0]), failure);
            check(failure);
            function("rocksdb_options_destroy", null, ADDRESS).invokeExact(options);

            var writing = (MemorySegment) function("rocksdb_writeoptions_create", ADDRESS).invokeExact();
            var reading = (MemorySegment) function("rocksdb_readoptions_create", ADDRESS).invokeExact();
            function("rocksdb_put", null, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS)
                .invokeExact(db, writing, arena.allocateFrom("ada"), 3L, arena.allocateFrom("1815"), 4L, failure);
            check(failure);
            var filters = (MemorySegment) function("lsm_sieve_of", ADDRESS, ADDRESS).invokeExact(db);
            var complete = (byte) function("lsm_sieve_wait_until_complete", JAVA_BYTE, ADDRESS, JAVA_LONG)
                .invokeExact(filters, 60_000L);
            var get = function("rocksdb_get", ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
            var size = arena.allocate(JAVA_LONG);
            for (var name : new String[] {"ada", "charles"}) {
                var value = (MemorySegment) get.invokeExact(
                    db, reading, arena.allocateFrom(name), (long) name.length(), size, failure);
                check(failure);
                var bytes = value.reinterpret(value.address() == 0 ? 0 : size.get(JAVA_LONG, 0));
                var text = new String(bytes.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
                System.out.println(name + ": " + (value.address() == 0 ? "absent" : text));
                function("rocksdb_free", null, ADDRESS).invokeExact(value);
            }
            // The first of the counters.
            var counters = MemoryLayout.structLayout(MemoryLayout.sequenceLayout(9, JAVA_LONG));
            var stats = (MemorySegment) function("lsm_sieve_stats", counters, ADDRESS)
                .invokeExact((SegmentAllocator) arena, filters);
            System.out.println("answered without the engine: " + stats.get(JAVA_LONG, 0));
            function("rocksdb_close", null, ADDRESS).invokeExact(db);
        }
    }
}
