package main

import "math/bits"

type entry struct {
	key                 uint64
	words               []uint64
	chain, older, newer *entry
}

type lru struct {
	table            []*entry
	capacity, length int
	oldest, newest   *entry
}

// powerOfTwo is the smallest one that is not below n.
func powerOfTwo(n uint64) uint64 {
	return 1 << bits.Len64(n-1)
}

func (c *lru) bucket(key uint64) uint64 {
	return mix(key) & uint64(len(c.table)-1)
}

func (c *lru) append(e *entry) {
	e.older, e.newer = c.newest, nil
	if c.newest == nil {
		c.oldest = e
	} else {
		c.newest.newer = e
	}
	c.newest = e
}

func (c *lru) unlink(e *entry) {
	if e.older == nil {
		c.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		c.newest = e.older
	} else {
		e.newer.older = e.older
	}
}

func (c *lru) evict() {
	victim := c.oldest
	c.unlink(victim)
	at := &c.table[c.bucket(victim.key)]
	for *at != victim {
		at = &(*at).chain
	}
	*at = victim.chain
}

func (c *lru) look(key uint64) *entry {
	for e := c.table[c.bucket(key)]; e != nil; e = e.chain {
		if e.key == key {
			c.unlink(e)
			c.append(e)
			return e
		}
	}
	return nil
}

func (c *lru) insert(key uint64) {
	if c.length == c.capacity {
		c.evict()
	} else {
		c.length++
	}
	place := c.bucket(key)
	e := &entry{key: key, words: words(key), chain: c.table[place]}
	c.table[place] = e
	c.append(e)
}

// lruCache: see the program "lru" in Rust.
func lruCache() uint64 {
	capacity, keys, rate := param("capacity"), param("keys"), param("rate")
	period := int64(1_000_000_000 / rate)
	cache := &lru{table: make([]*entry, powerOfTwo(capacity)), capacity: int(capacity)}
	for key := int64(capacity) - 1; key >= 0; key-- {
		cache.insert(uint64(key))
	}
	responses = make([]uint64, param("ms")*rate/1000)
	r, total, hits := random(0x1234), uint64(0), uint64(0)
	start := now() + period
	for k := range responses {
		intended := start + int64(k)*period
		threadSleepUntil(intended)
		a, b, c := r.below(keys), r.below(keys), r.below(keys)
		key := min(min(a, b), c)
		if found := cache.look(key); found != nil {
			total += digest(key, found.words)
			hits++
		} else {
			cache.insert(key)
		}
		responses[k] = response(intended)
	}
	return total ^ bits.RotateLeft64(hits, 32)
}
