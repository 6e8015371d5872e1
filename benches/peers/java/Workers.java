import java.util.ArrayList;
import java.util.List;
import java.util.function.LongUnaryOperator;

/** Threads that each return a number. */
final class Workers {
    private Workers() {}

    /** The sum of {@code work} for 0 to {@code threads - 1}, each on a thread of its own. */
    static long sum(long threads, LongUnaryOperator work) throws InterruptedException {
        long[] sums = new long[(int) threads];
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int t = i;
            Thread thread = new Thread(() -> sums[t] = work.applyAsLong(t));
            thread.start();
            all.add(thread);
        }
        long sum = 0;
        for (int i = 0; i < threads; i++) {
            all.get(i).join();
            sum += sums[i];
        }
        return sum;
    }
}
