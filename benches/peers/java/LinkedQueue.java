import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/** The lock-free queue of Michael and Scott: see the program "queue" in Rust. */
final class LinkedQueue {
    private static final long AHEAD = 1 << 16;

    private static final class Link extends AtomicReference<Link> {
        private static final long serialVersionUID = 1;
        final long value;

        Link(long value) {
            this.value = value;
        }
    }

    private final AtomicReference<Link> head = new AtomicReference<>(new Link(0));
    private final AtomicReference<Link> tail = new AtomicReference<>(head.get());

    private void push(long value) {
        Link link = new Link(value);
        while (true) {
            Link last = tail.get();
            Link next = last.get();
            if (next != null) {
                tail.compareAndSet(last, next);
            } else if (last.compareAndSet(null, link)) {
                tail.compareAndSet(last, link);
                return;
            }
        }
    }

    /** The first element, or null. */
    private Link pop() {
        while (true) {
            Link first = head.get();
            Link next = first.get();
            if (next == null) {
                return null;
            }
            if (head.compareAndSet(first, next)) {
                tail.compareAndSet(first, next);
                return next;
            }
        }
    }

    static long run() throws InterruptedException {
        long pairs = Peers.param("pairs");
        long count = Peers.param("count");
        LinkedQueue queue = new LinkedQueue();
        AtomicLong pushed = new AtomicLong();
        AtomicLong popped = new AtomicLong();
        return Workers.sum(2 * pairs, t -> {
            long sum = 0;
            if (t % 2 == 0) {
                for (long i = 0; i < count; i++) {
                    if (i % 64 == 0) {
                        while (pushed.get() - popped.get() > AHEAD) {
                            Thread.yield();
                        }
                        pushed.addAndGet(64);
                    }
                    queue.push(t / 2 * count + i);
                }
            } else {
                for (long taken = 0; taken < count; ) {
                    Link link = queue.pop();
                    if (link == null) {
                        Thread.yield();
                        continue;
                    }
                    sum += link.value * (link.value | 1);
                    taken++;
                    if (taken % 64 == 0) {
                        popped.addAndGet(64);
                    }
                }
            }
            return sum;
        });
    }
}
