/** Large arrays: see the program "arrays" in Rust. */
final class LargeArrays {
    private LargeArrays() {}

    private static long total(long[] array) {
        long sum = 0;
        if (array != null) {
            for (long x : array) {
                sum += x;
            }
        }
        return sum;
    }

    static long run() {
        long min = Peers.param("min") / 8;
        long max = Peers.param("max") / 8;
        int kept = (int) Peers.param("kept");
        long count = Peers.param("count");
        long[][] table = new long[kept][];
        Peers.Random random = new Peers.Random(0xa77a);
        long sum = 0;
        for (long seed = 0; seed < count; seed++) {
            int place = (int) random.below(kept);
            int length = (int) (min + random.below(max - min + 1));
            table[place] = null;
            long[] array = new long[length];
            for (int i = 0; i < length; i++) {
                array[i] = seed + i;
            }
            table[place] = array;
            sum = sum * 31 + total(table[(int) random.below(kept)]);
        }
        return sum;
    }
}
