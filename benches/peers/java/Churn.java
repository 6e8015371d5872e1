/** Churn beside a periodic task: see the program of that name in Rust. */
final class Churn {
    private static final long AVERAGE_BYTES = 32 * 8 + 56;
    private static final long BATCH = 16;
    private static final int BEADS = 64;
    private static final long TASK_SERIAL = 1L << 40;

    private Churn() {}

    /** An object. */
    static final class Block {
        final long serial;
        final long[] words;

        Block(long serial) {
            this.serial = serial;
            this.words = words(serial);
        }

        long digest() {
            return Churn.digest(serial, words);
        }
    }

    static long[] words(long serial) {
        long[] words = new long[4 + (int) ((Peers.mix(serial) >>> 33) % 57)];
        for (int i = 0; i < words.length; i++) {
            words[i] = (serial * 0x100000001b3L) ^ i;
        }
        return words;
    }

    static long digest(long serial, long[] words) {
        long sum = serial;
        for (long word : words) {
            sum = sum * 31 + word;
        }
        return sum;
    }

    private static long churn(Block[] table, long count, long rate) {
        int n = table.length;
        Peers.Random random = new Peers.Random(0xc0de);
        long start = System.nanoTime();
        for (long done = 0; done < count; ) {
            long due = start + Long.divideUnsigned(done * AVERAGE_BYTES * 1_000_000_000L, rate);
            if (System.nanoTime() + 1_000_000 < due) {
                Peers.sleepUntil(due);
            }
            for (long end = Math.min(done + BATCH, count); done < end; done++) {
                table[(int) random.below(n)] = new Block(n + done);
            }
        }
        long sum = 0;
        for (Block block : table) {
            sum += Peers.mix(block.digest());
        }
        return sum;
    }

    private static long task(long[] responses, long period) {
        Block[] table = new Block[BEADS];
        for (int k = 0; k < BEADS; k++) {
            table[k] = new Block(TASK_SERIAL + k);
        }
        long sum = 0;
        long start = System.nanoTime() + period;
        for (int k = 0; k < responses.length; k++) {
            long intended = start + k * period;
            Peers.sleepUntil(intended);
            table[k % BEADS] = new Block(TASK_SERIAL + BEADS + k);
            for (Block block : table) {
                sum += block.digest();
            }
            responses[k] = Math.max(1, System.nanoTime() - intended);
        }
        return sum;
    }

    static long run() throws InterruptedException {
        long ms = Peers.param("ms");
        long rate = Peers.param("rate");
        long period = Peers.param("period_us") * 1000;
        Block[] table = new Block[(int) (Peers.param("live") / AVERAGE_BYTES)];
        for (int serial = 0; serial < table.length; serial++) {
            table[serial] = new Block(serial);
        }
        Peers.responses = new long[(int) (ms * 1_000_000L / period)];
        long[] taskSum = new long[1];
        // The name by which the harness finds the thread that is to run under SCHED_FIFO.
        Thread task = new Thread(() -> taskSum[0] = task(Peers.responses, period), "peers-task");
        task.start();
        long sum = churn(table, rate * ms / 1000 / AVERAGE_BYTES, rate);
        task.join();
        return sum ^ Long.rotateLeft(taskSum[0], 32);
    }
}
