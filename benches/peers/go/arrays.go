package main

// largeArrays: see the program "arrays" in Rust.
func largeArrays() uint64 {
	low, high := param("min")/8, param("max")/8
	kept, count := param("kept"), param("count")
	table := make([][]uint64, kept)
	r, total := random(0xa77a), uint64(0)
	for seed := uint64(0); seed < count; seed++ {
		place := r.below(kept)
		length := low + r.below(high-low+1)
		table[place] = nil
		array := make([]uint64, length)
		for i := range array {
			array[i] = seed + uint64(i)
		}
		table[place] = array
		added := uint64(0)
		for _, x := range table[r.below(kept)] {
			added += x
		}
		total = total*31 + added
	}
	return total
}
