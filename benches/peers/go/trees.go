package main

import "math"

const minDepth = 4

type pair struct{ left, right *pair }

func tree(depth uint64) *pair {
	if depth == 0 {
		return &pair{}
	}
	return &pair{tree(depth - 1), tree(depth - 1)}
}

func (p *pair) count() uint64 {
	if p.left == nil {
		return 1
	}
	return 1 + p.left.count() + p.right.count()
}

// binaryTrees: see the program of that name in Rust.
func binaryTrees() uint64 {
	depth, threads := param("depth"), param("threads")
	return sum(threads, func(uint64) uint64 {
		total := tree(depth + 1).count()
		longLived := tree(depth)
		for d := uint64(minDepth); d <= depth; d += 2 {
			for i := uint64(0); i < (uint64(1)<<(depth-d+minDepth))/threads; i++ {
				total += tree(d).count()
			}
		}
		return total + longLived.count()
	})
}

type node struct {
	left, right *node
	i, j        uint32
}

func (n *node) count() uint64 {
	if n == nil {
		return 0
	}
	return 1 + uint64(n.i+n.j) + n.left.count() + n.right.count()
}

func (n *node) leftPath() uint64 {
	length := uint64(0)
	for ; n != nil; n = n.left {
		length++
	}
	return length
}

func (n *node) down(depth uint64) {
	if depth > 0 {
		n.left, n.right = &node{}, &node{}
		n.left.down(depth - 1)
		n.right.down(depth - 1)
	}
}

func topDown(depth uint64) *node {
	root := &node{}
	root.down(depth)
	return root
}

func bottomUp(depth uint64) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{left: bottomUp(depth - 1), right: bottomUp(depth - 1)}
}

func nodes(depth uint64) uint64 {
	return (2 << depth) - 1
}

func pass(stretch uint64) uint64 {
	total := bottomUp(stretch).leftPath()
	deepest := stretch - 2
	longLived := topDown(deepest)
	length := 500_000
	if stretch < 18 {
		length >>= 18 - stretch
	}
	array := make([]float64, length)
	for i := 1; i < length/2; i++ {
		array[i] = 1 / float64(i)
	}
	for depth := uint64(minDepth); depth <= deepest; depth += 2 {
		times := 2 * nodes(stretch) / nodes(depth)
		for i := uint64(0); i < times; i++ {
			total += topDown(depth).leftPath()
		}
		for i := uint64(0); i < times; i++ {
			total += bottomUp(depth).leftPath()
		}
	}
	total += longLived.count()
	for _, x := range array {
		total += math.Float64bits(x)
	}
	return total
}

// gcBench: see the program of that name in Rust.
func gcBench() uint64 {
	stretch, passes := param("stretch"), param("passes")
	return sum(param("threads"), func(uint64) uint64 {
		total := uint64(0)
		for i := uint64(0); i < passes; i++ {
			total += pass(stretch)
		}
		return total
	})
}
