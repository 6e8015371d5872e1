/** Binary trees: see the program of that name in Rust. */
final class BinaryTrees {
    private static final int MIN_DEPTH = 4;

    private BinaryTrees() {}

    private static final class Pair {
        final Pair left;
        final Pair right;

        Pair(Pair left, Pair right) {
            this.left = left;
            this.right = right;
        }

        long count() {
            return left == null ? 1 : 1 + left.count() + right.count();
        }
    }

    private static Pair tree(int depth) {
        return depth == 0 ? new Pair(null, null) : new Pair(tree(depth - 1), tree(depth - 1));
    }

    private static long work(int depth, long threads) {
        long sum = tree(depth + 1).count();
        Pair longLived = tree(depth);
        for (int d = MIN_DEPTH; d <= depth; d += 2) {
            for (long i = 0; i < (1L << (depth - d + MIN_DEPTH)) / threads; i++) {
                sum += tree(d).count();
            }
        }
        return sum + longLived.count();
    }

    static long run() throws InterruptedException {
        int depth = (int) Peers.param("depth");
        long threads = Peers.param("threads");
        return threads == 1 ? work(depth, 1) : Workers.sum(threads, t -> work(depth, threads));
    }
}
