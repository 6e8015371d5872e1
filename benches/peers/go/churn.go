package main

import "math/bits"

const (
	averageBytes = 32*8 + 56
	batch        = 16
	beads        = 64
	taskSerial   = uint64(1) << 40
)

type block struct {
	serial uint64
	words  []uint64
}

func words(serial uint64) []uint64 {
	words := make([]uint64, 4+(mix(serial)>>33)%57)
	for i := range words {
		words[i] = (serial * 0x100000001b3) ^ uint64(i)
	}
	return words
}

func digest(serial uint64, words []uint64) uint64 {
	total := serial
	for _, word := range words {
		total = total*31 + word
	}
	return total
}

func newBlock(serial uint64) *block {
	return &block{serial, words(serial)}
}

func replace(table []*block, count, rate uint64) uint64 {
	n, r := uint64(len(table)), random(0xc0de)
	start := now()
	for done := uint64(0); done < count; {
		due := start + int64(done*averageBytes*1_000_000_000/rate)
		if now()+1_000_000 < due {
			sleepUntil(due)
		}
		for end := min(done+batch, count); done < end; done++ {
			place := r.below(n)
			table[place] = newBlock(n + done)
		}
	}
	total := uint64(0)
	for _, b := range table {
		total += mix(digest(b.serial, b.words))
	}
	return total
}

func min(a, b uint64) uint64 {
	if a < b {
		return a
	}
	return b
}

func task(responses []uint64, period int64) uint64 {
	becomeTask()
	table := make([]*block, beads)
	for k := range table {
		table[k] = newBlock(taskSerial + uint64(k))
	}
	total := uint64(0)
	start := now() + period
	for k := range responses {
		intended := start + int64(k)*period
		threadSleepUntil(intended)
		table[k%beads] = newBlock(taskSerial + beads + uint64(k))
		for _, b := range table {
			total += digest(b.serial, b.words)
		}
		responses[k] = response(intended)
	}
	return total
}

// churn: see the program of that name in Rust.
func churn() uint64 {
	ms, rate, period := param("ms"), param("rate"), int64(param("period_us"))*1000
	table := make([]*block, param("live")/averageBytes)
	for serial := range table {
		table[serial] = newBlock(uint64(serial))
	}
	responses = make([]uint64, int64(ms)*1_000_000/period)
	done := make(chan uint64)
	go func() { done <- task(responses, period) }()
	total := replace(table, rate*ms/1000/averageBytes, rate)
	return total ^ bits.RotateLeft64(<-done, 32)
}
