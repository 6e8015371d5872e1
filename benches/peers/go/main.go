// Command peers runs one program: peers PROGRAM SAMPLES-FILE name=value ...
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

var params = map[string]uint64{}

// responses holds response times in nanoseconds, for those programs that have them.
var responses []uint64

func param(name string) uint64 {
	value, ok := params[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "the size %s=... is missing\n", name)
		os.Exit(1)
	}
	return value
}

func mix(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// random is the generator that all contestants use.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

func (r *random) below(n uint64) uint64 {
	return (r.next() >> 32) * n >> 32
}

var epoch = time.Now()

// now is monotonic time in nanoseconds.
func now() int64 {
	return int64(time.Since(epoch))
}

func response(intended int64) uint64 {
	if took := now() - intended; took > 1 {
		return uint64(took)
	}
	return 1
}

var programs = map[string]func() uint64{
	"binary-trees":   binaryTrees,
	"binary-trees-2": binaryTrees,
	"gcbench":        gcBench,
	"churn":          churn,
	"lru":            lruCache,
	"storm":          storm,
	"arrays":         largeArrays,
	"queue":          queue,
	"map":            listMap,
}

// sum adds up what work returns for 0 to threads-1, each in a goroutine of its own.
func sum(threads uint64, work func(uint64) uint64) uint64 {
	results := make(chan uint64)
	for t := uint64(0); t < threads; t++ {
		go func(t uint64) { results <- work(t) }(t)
	}
	total := uint64(0)
	for t := uint64(0); t < threads; t++ {
		total += <-results
	}
	return total
}

func main() {
	for _, word := range os.Args[3:] {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		params[name] = n
	}
	run, ok := programs[os.Args[1]]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no program %s\n", os.Args[1])
		os.Exit(1)
	}
	start := time.Now()
	checksum := run()
	fmt.Printf("work_ns %d\n", time.Since(start))
	fmt.Printf("checksum %016x\n", checksum)
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Printf("gc.cycles %d\n", stats.NumGC)
	if len(responses) > 0 && os.Args[2] != "-" {
		bytes := make([]byte, 8*len(responses))
		for i, r := range responses {
			binary.LittleEndian.PutUint64(bytes[8*i:], r)
		}
		if err := os.WriteFile(os.Args[2], bytes, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
