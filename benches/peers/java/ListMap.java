import java.util.concurrent.atomic.AtomicReferenceArray;

/** The lock-free map of immutable lists: see the program "map" in Rust. */
final class ListMap {
    private static final class Entry {
        final long key;
        final long value;
        final Entry next;

        Entry(long key, long value, Entry next) {
            this.key = key;
            this.value = value;
            this.next = next;
        }
    }

    /** Keeps what the look-ups found from being for nothing. */
    static volatile long sink;

    private final AtomicReferenceArray<Entry> table;

    private ListMap(int buckets) {
        table = new AtomicReferenceArray<>(buckets);
    }

    private int bucket(long key) {
        return (int) Peers.mix(key) & (table.length() - 1);
    }

    private Entry get(long key) {
        Entry at = table.get(bucket(key));
        while (at != null && at.key != key) {
            at = at.next;
        }
        return at;
    }

    private static Entry replaced(Entry list, long key, long value) {
        if (list == null) {
            return new Entry(key, value, null);
        }
        if (list.key == key) {
            return new Entry(key, value, list.next);
        }
        return new Entry(list.key, list.value, replaced(list.next, key, value));
    }

    private void put(long key, long value) {
        int place = bucket(key);
        while (true) {
            Entry old = table.get(place);
            if (table.compareAndSet(place, old, replaced(old, key, value))) {
                return;
            }
        }
    }

    static long run() throws InterruptedException {
        long threads = Peers.param("threads");
        long keys = Peers.param("keys");
        long count = Peers.param("count");
        int half = (int) keys / 2;
        int size = Integer.highestOneBit(half);
        ListMap map = new ListMap(size == half ? size : 2 * size);
        Workers.sum(threads, t -> {
            Peers.Random random = new Peers.Random(0x3a9 + t);
            long found = 0;
            for (long k = 0; k < count; k++) {
                long key = random.below(keys);
                if (k % 4 == 0) {
                    map.put(key / threads * threads + t, k);
                } else if (map.get(key) != null) {
                    found++;
                }
            }
            sink = found;
            return 0;
        });
        long sum = 0;
        for (long key = 0; key < keys + threads; key++) {
            Entry entry = map.get(key);
            sum = sum * 31 + (entry == null ? 0 : entry.value + 1);
        }
        return sum;
    }
}
