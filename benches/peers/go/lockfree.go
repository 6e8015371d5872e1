package main

import (
	"runtime"
	"sync/atomic"
)

const ahead = 1 << 16

type link struct {
	value uint64
	next  atomic.Pointer[link]
}

type linkedQueue struct{ head, tail atomic.Pointer[link] }

func (q *linkedQueue) push(value uint64) {
	l := &link{value: value}
	for {
		tail := q.tail.Load()
		if next := tail.next.Load(); next != nil {
			q.tail.CompareAndSwap(tail, next)
		} else if tail.next.CompareAndSwap(nil, l) {
			q.tail.CompareAndSwap(tail, l)
			return
		}
	}
}

func (q *linkedQueue) pop() *link {
	for {
		head := q.head.Load()
		next := head.next.Load()
		if next == nil {
			return nil
		}
		if q.head.CompareAndSwap(head, next) {
			q.tail.CompareAndSwap(head, next)
			return next
		}
	}
}

// queue: see the program of that name in Rust.
func queue() uint64 {
	pairs, count := param("pairs"), param("count")
	q, first := &linkedQueue{}, &link{}
	q.head.Store(first)
	q.tail.Store(first)
	var pushed, popped atomic.Int64
	return sum(2*pairs, func(t uint64) uint64 {
		total := uint64(0)
		if t%2 == 0 {
			for i := uint64(0); i < count; i++ {
				if i%64 == 0 {
					for pushed.Load()-popped.Load() > ahead {
						runtime.Gosched()
					}
					pushed.Add(64)
				}
				q.push(t/2*count + i)
			}
			return 0
		}
		for taken := uint64(0); taken < count; {
			l := q.pop()
			if l == nil {
				runtime.Gosched()
				continue
			}
			total += l.value * (l.value | 1)
			if taken++; taken%64 == 0 {
				popped.Add(64)
			}
		}
		return total
	})
}

type item struct {
	key, value uint64
	next       *item
}

type itemMap []atomic.Pointer[item]

func (m itemMap) bucket(key uint64) *atomic.Pointer[item] {
	return &m[mix(key)&uint64(len(m)-1)]
}

func (m itemMap) get(key uint64) *item {
	at := m.bucket(key).Load()
	for at != nil && at.key != key {
		at = at.next
	}
	return at
}

func replaced(list *item, key, value uint64) *item {
	switch {
	case list == nil:
		return &item{key, value, nil}
	case list.key == key:
		return &item{key, value, list.next}
	default:
		return &item{list.key, list.value, replaced(list.next, key, value)}
	}
}

func (m itemMap) put(key, value uint64) {
	head := m.bucket(key)
	for {
		old := head.Load()
		if head.CompareAndSwap(old, replaced(old, key, value)) {
			return
		}
	}
}

// listMap: see the program "map" in Rust.
func listMap() uint64 {
	threads, keys, count := param("threads"), param("keys"), param("count")
	m := make(itemMap, powerOfTwo(keys/2))
	var found atomic.Uint64
	sum(threads, func(t uint64) uint64 {
		r, seen := random(0x3a9+t), uint64(0)
		for k := uint64(0); k < count; k++ {
			key := r.below(keys)
			if k%4 == 0 {
				m.put(key/threads*threads+t, k)
			} else if m.get(key) != nil {
				seen++
			}
		}
		found.Add(seen)
		return 0
	})
	total := uint64(0)
	for key := uint64(0); key < keys+threads; key++ {
		value := uint64(0)
		if at := m.get(key); at != nil {
			value = at.value + 1
		}
		total = total*31 + value
	}
	return total
}
