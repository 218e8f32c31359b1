import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Random;

/** Bytes an entry of a HashMap of a file of keys and values, and probes per CPU second. */
public final class HashMapLookups {
    public static void main(String[] arguments) throws Exception {
        int entries = Integer.parseInt(arguments[1]);
        int probes = Integer.parseInt(arguments[2]);
        long before = used();
        HashMap<String, String> table = new HashMap<>(entries * 2);
        try (var lines = Files.lines(Path.of(arguments[0]))) {
            lines.forEach(line -> {
                int comma = line.indexOf(',');
                table.put(line.substring(0, comma), line.substring(comma + 1));
            });
        }
        double size = (used() - before) / (double) entries;
        String[] known = table.keySet().toArray(new String[0]);
        Random chance = new Random(1);
        byte[][] asked = new byte[probes][];
        for (int i = 0; i < probes; i++) {
            asked[i] = known[chance.nextInt(known.length)].getBytes();
        }
        double rate = 0;
        for (int round = 0; round < 3; round++) {
            long start = cpu();
            long found = 0;
            for (byte[] key : asked) {
                // A key comes as bytes of a record.
                found += table.get(new String(key, java.nio.charset.StandardCharsets.UTF_8)).length();
            }
            rate = probes / ((cpu() - start) / 1e9) / 1e6;
            if (found == 0) {
                throw new IllegalStateException();
            }
        }
        System.out.println("[" + size + ", " + rate + "]");
    }

    private static long used() {
        for (int i = 0; i < 3; i++) {
            System.gc();
        }
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private static long cpu() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
