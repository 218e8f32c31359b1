import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.flink.api.common.eventtime.IndexedCombinedWatermarkStatus;

/** Random lives of an operator with several inputs, and its combined watermark in real Flink. */
public class CombinedWatermarks {
    public static void main(String[] args) {
        Random random = new Random(7);
        for (int life = 0; life < 40; life++) {
            int inputs = 2 + random.nextInt(2);
            IndexedCombinedWatermarkStatus combined =
                    IndexedCombinedWatermarkStatus.forInputsCount(inputs);
            Long[] own = new Long[inputs];
            List<String> steps = new ArrayList<>();
            for (int step = 0; step < 12; step++) {
                int input = random.nextInt(inputs), kind = random.nextInt(4);
                boolean idle = kind >= 2;
                if (kind < 3) {
                    own[input] = (own[input] == null ? 0 : own[input]) + random.nextInt(9);
                    combined.updateWatermark(input, own[input]);
                }
                if (idle) combined.updateStatus(input, true);
                long all = combined.getCombinedWatermark();
                steps.add(
                        String.format(
                                "[%d, %s, %b, %s, %b]",
                                input, own[input], idle,
                                all == Long.MIN_VALUE ? "null" : "" + all, combined.isIdle()));
            }
            System.out.printf("[%d, [%s]]%n", inputs, String.join(", ", steps));
        }
    }
}
