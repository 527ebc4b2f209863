// A database of users, from Go over cgo.
//
//	go run users.go /tmp/users
package main

/*
#cgo pkg-config: lsm_sieve
#include <stdlib.h>
#include "lsm_sieve.h"
*/
import "C"

import (
	"fmt"
	"log"
	"os"
	"unsafe"
)

func check(failure *C.char) {
	if failure != nil {
		log.Fatal(C.GoString(failure))
	}
}

func main() {
	path := "/tmp/users"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	var failure *C.char
	options := C.rocksdb_options_create()
	C.rocksdb_options_set_create_if_missing(options, 1)
	db := C.lsm_sieve_open(options, nil, cPath, &failure)
	check(failure)
	C.rocksdb_options_destroy(options)

	// From here on it is a database as any other, also for a Go package over RocksDB's C API.
	writing, reading := C.rocksdb_writeoptions_create(), C.rocksdb_readoptions_create()
	ada, value := C.CString("ada"), C.CString("1815")
	C.rocksdb_put(db, writing, ada, 3, value, 4, &failure)
	check(failure)
	C.lsm_sieve_wait_until_complete(C.lsm_sieve_of(db), 60000)
	for _, name := range []string{"ada", "charles"} {
		var size C.size_t
		key := C.CString(name)
		found := C.rocksdb_get(db, reading, key, C.size_t(len(name)), &size, &failure)
		check(failure)
		if found == nil {
			fmt.Printf("%s: absent\n", name)
		} else {
			fmt.Printf("%s: %s\n", name, C.GoStringN(found, C.int(size)))
		}
		C.rocksdb_free(unsafe.Pointer(found))
		C.free(unsafe.Pointer(key))
	}
	fmt.Println("answered without the engine:", C.lsm_sieve_stats(C.lsm_sieve_of(db)).absent)
	C.free(unsafe.Pointer(ada))
	C.free(unsafe.Pointer(value))
	C.rocksdb_writeoptions_destroy(writing)
	C.rocksdb_readoptions_destroy(reading)
	C.rocksdb_close(db)
}
