import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/** Runs one program: {@code java Peers PROGRAM SAMPLES-FILE name=value ...}. */
public final class Peers {
    private static final Map<String, Long> PARAMS = new HashMap<>();

    /** Response times in nanoseconds, for those programs that have them. */
    static long[] responses = new long[0];

    private Peers() {}

    static long param(String name) {
        Long value = PARAMS.get(name);
        if (value == null) {
            throw new IllegalArgumentException("the size " + name + "=... is missing");
        }
        return value;
    }

    static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
        return x ^ (x >>> 31);
    }

    /** The generator that all contestants use. */
    static final class Random {
        private long state;

        Random(long seed) {
            state = seed;
        }

        long next() {
            state += 0x9e3779b97f4a7c15L;
            return mix(state);
        }

        long below(long n) {
            return ((next() >>> 32) * n) >>> 32;
        }
    }

    /** Sleeps until the monotonic clock shows this time. */
    static void sleepUntil(long ns) {
        for (long left = ns - System.nanoTime(); left > 0; left = ns - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private static long run(String program) throws InterruptedException {
        switch (program) {
            case "binary-trees":
            case "binary-trees-2":
                return BinaryTrees.run();
            case "gcbench":
                return GcBench.run();
            case "churn":
                return Churn.run();
            case "lru":
                return Lru.run();
            case "storm":
                return Storm.run();
            case "arrays":
                return LargeArrays.run();
            case "queue":
                return LinkedQueue.run();
            case "map":
                return ListMap.run();
            default:
                throw new IllegalArgumentException("there is no program " + program);
        }
    }

    public static void main(String[] args) throws InterruptedException, IOException {
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=");
            PARAMS.put(pair[0], Long.parseLong(pair[1]));
        }
        long start = System.nanoTime();
        long checksum = run(args[0]);
        System.out.println("work_ns " + (System.nanoTime() - start));
        System.out.printf("checksum %016x%n", checksum);
        long cycles = 0;
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            // Those that count pauses, not cycles, would count twice.
            if (!bean.getName().contains("Pauses")) {
                cycles += bean.getCollectionCount();
            }
        }
        System.out.println("gc.cycles " + cycles);
        if (responses.length > 0 && !args[1].equals("-")) {
            ByteBuffer bytes = ByteBuffer.allocate(responses.length * 8).order(ByteOrder.LITTLE_ENDIAN);
            for (long response : responses) {
                bytes.putLong(response);
            }
            Files.write(Path.of(args[1]), bytes.array());
        }
    }
}
