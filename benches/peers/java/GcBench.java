/** GCBench: see the program of that name in Rust. */
final class GcBench {
    private static final int MIN_DEPTH = 4;

    private GcBench() {}

    private static final class Node {
        Node left;
        Node right;
        int i;
        int j;

        Node() {}

        Node(Node left, Node right) {
            this.left = left;
            this.right = right;
        }

        long count() {
            return 1 + i + j + (left == null ? 0 : left.count()) + (right == null ? 0 : right.count());
        }

        long leftPath() {
            long length = 0;
            for (Node at = this; at != null; at = at.left) {
                length++;
            }
            return length;
        }
    }

    private static void down(Node node, int depth) {
        if (depth > 0) {
            node.left = new Node();
            node.right = new Node();
            down(node.left, depth - 1);
            down(node.right, depth - 1);
        }
    }

    private static Node topDown(int depth) {
        Node root = new Node();
        down(root, depth);
        return root;
    }

    private static Node bottomUp(int depth) {
        return depth == 0 ? new Node() : new Node(bottomUp(depth - 1), bottomUp(depth - 1));
    }

    private static long nodes(int depth) {
        return (2L << depth) - 1;
    }

    private static long pass(int stretch) {
        long sum = bottomUp(stretch).leftPath();
        int deepest = stretch - 2;
        Node longLived = topDown(deepest);
        double[] array = new double[500_000 >> Math.max(0, 18 - stretch)];
        for (int i = 1; i < array.length / 2; i++) {
            array[i] = 1.0 / i;
        }
        for (int depth = MIN_DEPTH; depth <= deepest; depth += 2) {
            long times = 2 * nodes(stretch) / nodes(depth);
            for (long i = 0; i < times; i++) {
                sum += topDown(depth).leftPath();
            }
            for (long i = 0; i < times; i++) {
                sum += bottomUp(depth).leftPath();
            }
        }
        sum += longLived.count();
        for (double x : array) {
            sum += Double.doubleToRawLongBits(x);
        }
        return sum;
    }

    static long run() throws InterruptedException {
        int stretch = (int) Peers.param("stretch");
        long passes = Peers.param("passes");
        return Workers.sum(Peers.param("threads"), t -> {
            long sum = 0;
            for (long i = 0; i < passes; i++) {
                sum += pass(stretch);
            }
            return sum;
        });
    }
}
