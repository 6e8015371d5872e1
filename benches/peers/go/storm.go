package main

import "math/bits"

type vertex struct {
	id   uint64
	a, b *vertex
}

func (v *vertex) number() uint64 {
	if v == nil {
		return ^uint64(0)
	}
	return v.id
}

// storm: see the program of that name in Rust.
func storm() uint64 {
	n, steps := param("nodes"), param("steps")
	table := make([]*vertex, n)
	for i := range table {
		table[i] = &vertex{id: uint64(i)}
	}
	r := random(0x5702)
	for k := uint64(0); k < steps; k++ {
		i := r.below(n)
		j := r.below(n)
		switch kind := k % 8; {
		case kind == 0:
			fresh := &vertex{id: n + k, a: table[j]}
			old := table[i]
			old.a, old.b = nil, nil
			table[i] = fresh
		case kind%2 == 1:
			table[i].a = table[j].b
		default:
			table[i].b = table[j]
		}
	}
	total := uint64(0)
	for _, v := range table {
		total += mix(v.id ^ bits.RotateLeft64(v.a.number(), 17) ^ bits.RotateLeft64(v.b.number(), 34))
	}
	return total
}
