/** A storm of pointers: see the program of that name in Rust. */
final class Storm {
    private Storm() {}

    private static final class Node {
        final long id;
        Node a;
        Node b;

        Node(long id, Node a) {
            this.id = id;
            this.a = a;
        }
    }

    private static long id(Node node) {
        return node == null ? -1 : node.id;
    }

    static long run() {
        int n = (int) Peers.param("nodes");
        long steps = Peers.param("steps");
        Node[] table = new Node[n];
        for (int i = 0; i < n; i++) {
            table[i] = new Node(i, null);
        }
        Peers.Random random = new Peers.Random(0x5702);
        for (long k = 0; k < steps; k++) {
            int i = (int) random.below(n);
            int j = (int) random.below(n);
            int kind = (int) (k % 8);
            if (kind == 0) {
                Node old = table[i];
                Node fresh = new Node(n + k, table[j]);
                old.a = null;
                old.b = null;
                table[i] = fresh;
            } else if (kind % 2 == 1) {
                table[i].a = table[j].b;
            } else {
                table[i].b = table[j];
            }
        }
        long sum = 0;
        for (Node node : table) {
            sum += Peers.mix(node.id ^ Long.rotateLeft(id(node.a), 17) ^ Long.rotateLeft(id(node.b), 34));
        }
        return sum;
    }
}
