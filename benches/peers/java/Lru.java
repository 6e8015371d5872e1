/** A cache under a fixed rate of requests: see the program of that name in Rust. */
final class Lru {
    private static final class Entry {
        final long key;
        final long[] words;
        Entry chain;
        Entry older;
        Entry newer;

        Entry(long key, Entry chain) {
            this.key = key;
            this.words = Churn.words(key);
            this.chain = chain;
        }
    }

    private final Entry[] table;
    private final int capacity;
    private int length;
    private Entry oldest;
    private Entry newest;

    private Lru(int capacity) {
        this.capacity = capacity;
        int size = Integer.highestOneBit(capacity);
        table = new Entry[size == capacity ? size : 2 * size];
    }

    private int bucket(long key) {
        return (int) Peers.mix(key) & (table.length - 1);
    }

    private void append(Entry entry) {
        entry.older = newest;
        entry.newer = null;
        if (newest == null) {
            oldest = entry;
        } else {
            newest.newer = entry;
        }
        newest = entry;
    }

    private void unlink(Entry entry) {
        if (entry.older == null) {
            oldest = entry.newer;
        } else {
            entry.older.newer = entry.newer;
        }
        if (entry.newer == null) {
            newest = entry.older;
        } else {
            entry.newer.older = entry.older;
        }
    }

    private void evict() {
        Entry victim = oldest;
        unlink(victim);
        int place = bucket(victim.key);
        if (table[place] == victim) {
            table[place] = victim.chain;
            return;
        }
        Entry at = table[place];
        while (at.chain != victim) {
            at = at.chain;
        }
        at.chain = victim.chain;
    }

    private Entry look(long key) {
        for (Entry at = table[bucket(key)]; at != null; at = at.chain) {
            if (at.key == key) {
                unlink(at);
                append(at);
                return at;
            }
        }
        return null;
    }

    private void insert(long key) {
        if (length == capacity) {
            evict();
        } else {
            length++;
        }
        int place = bucket(key);
        Entry entry = new Entry(key, table[place]);
        table[place] = entry;
        append(entry);
    }

    static long run() {
        int capacity = (int) Peers.param("capacity");
        long keys = Peers.param("keys");
        long rate = Peers.param("rate");
        long period = 1_000_000_000L / rate;
        Lru cache = new Lru(capacity);
        for (long key = capacity - 1; key >= 0; key--) {
            cache.insert(key);
        }
        Peers.Random random = new Peers.Random(0x1234);
        long[] responses = new long[(int) (Peers.param("ms") * rate / 1000)];
        long sum = 0;
        long hits = 0;
        long start = System.nanoTime() + period;
        for (int k = 0; k < responses.length; k++) {
            long intended = start + k * period;
            Peers.sleepUntil(intended);
            long key = Math.min(Math.min(random.below(keys), random.below(keys)), random.below(keys));
            Entry found = cache.look(key);
            if (found == null) {
                cache.insert(key);
            } else {
                sum += Churn.digest(key, found.words);
                hits++;
            }
            responses[k] = Math.max(1, System.nanoTime() - intended);
        }
        Peers.responses = responses;
        return sum ^ Long.rotateLeft(hits, 32);
    }
}
