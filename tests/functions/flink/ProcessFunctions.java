import static org.apache.flink.table.annotation.ArgumentTrait.OPTIONAL_PARTITION_BY;
import static org.apache.flink.table.annotation.ArgumentTrait.PASS_COLUMNS_THROUGH;
import static org.apache.flink.table.annotation.ArgumentTrait.REQUIRE_ON_TIME;
import static org.apache.flink.table.annotation.ArgumentTrait.ROW_SEMANTIC_TABLE;
import static org.apache.flink.table.annotation.ArgumentTrait.SET_SEMANTIC_TABLE;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.flink.table.annotation.ArgumentHint;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.StateHint;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.types.Row;

/** The functions of process_functions.py, as Flink runs them. */
public final class ProcessFunctions {
    private static final DateTimeFormatter CLOCK = DateTimeFormatter.ofPattern("mm:ss");

    private static String shown(LocalDateTime at) {
        return at == null ? "never" : at.getYear() > 9999 ? "end" : CLOCK.format(at);
    }

    @DataTypeHint("ROW<said STRING>")
    public static class hello extends ProcessTableFunction<Row> {
        public void eval(
                @ArgumentHint(ROW_SEMANTIC_TABLE) Row who,
                String word,
                @ArgumentHint(isOptional = true) Integer times) {
            collect(Row.of(word + " " + who.getFieldAs("name") + " " + times));
        }
    }

    @DataTypeHint("ROW<at STRING, watermark STRING>")
    public static class clock extends ProcessTableFunction<Row> {
        public void eval(Context ctx, @ArgumentHint({ROW_SEMANTIC_TABLE, REQUIRE_ON_TIME}) Row r) {
            TimeContext<LocalDateTime> time = ctx.timeContext(LocalDateTime.class);
            collect(Row.of(shown(time.time()), shown(time.currentWatermark())));
        }
    }

    public static class Memory {
        public long n = 0;
        public String last = "nobody";
    }

    @DataTypeHint("ROW<n BIGINT, last STRING>")
    public static class counted extends ProcessTableFunction<Row> {
        public void eval(Context ctx, @StateHint Memory memory, @ArgumentHint(SET_SEMANTIC_TABLE) Row r) {
            memory.n++;
            collect(Row.of(memory.n, memory.last));
            memory.last = r.getFieldAs("name");
            if (memory.n == 3) {
                ctx.clearAllState();
            }
        }
    }

    @DataTypeHint("ROW<n BIGINT, last STRING>")
    public static class passing extends ProcessTableFunction<Row> {
        public void eval(
                @StateHint Memory memory,
                @ArgumentHint({SET_SEMANTIC_TABLE, PASS_COLUMNS_THROUGH}) Row r) {
            memory.n++;
            collect(Row.of(memory.n, memory.last));
            memory.last = r.getFieldAs("name");
        }
    }

    @DataTypeHint("ROW<n BIGINT>")
    public static class whole extends ProcessTableFunction<Row> {
        public void eval(
                @StateHint Memory memory,
                @ArgumentHint({SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY}) Row r) {
            memory.n += r.<Integer>getFieldAs("score");
            collect(Row.of(memory.n));
        }
    }

    @DataTypeHint("ROW<seen STRING, size INT>")
    public static class listed extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint ListView<String> names,
                @ArgumentHint({SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY}) Row r)
                throws Exception {
            names.add(r.getFieldAs("name"));
            List<String> all = new ArrayList<>();
            names.get().forEach(all::add);
            collect(Row.of(String.join(",", all), all.size()));
            if (all.size() == 3) {
                ctx.clearState("names");
            }
        }
    }

    @DataTypeHint("ROW<before BIGINT, all STRING>")
    public static class mapped extends ProcessTableFunction<Row> {
        public void eval(
                @StateHint MapView<String, Long> scores,
                @ArgumentHint({SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY}) Row r)
                throws Exception {
            String name = r.getFieldAs("name");
            Long before = scores.get(name);
            long score = r.<Integer>getFieldAs("score");
            if (score < 0) {
                scores.remove(name);
            } else {
                scores.put(name, (scores.contains(name) ? before : 0) + score);
            }
            collect(Row.of(before, new TreeMap<>(scores.getMap()).toString()));
        }
    }

    @DataTypeHint("ROW<said STRING>")
    public static class paired extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint Memory memory,
                @ArgumentHint(SET_SEMANTIC_TABLE) Row people,
                @ArgumentHint(SET_SEMANTIC_TABLE) Row cities) {
            memory.n++;
            String name = people == null ? memory.last : people.getFieldAs("name");
            memory.last = name;
            collect(Row.of(cities == null ? name : cities.getFieldAs("city") + " " + memory.n));
        }
    }

    /** Does with timers what the rows say, and tells all. */
    @DataTypeHint("ROW<said STRING, watermark STRING, n BIGINT>")
    public static class timing extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint Memory memory,
                @ArgumentHint({SET_SEMANTIC_TABLE, OPTIONAL_PARTITION_BY, REQUIRE_ON_TIME}) Row r) {
            TimeContext<LocalDateTime> time = ctx.timeContext(LocalDateTime.class);
            String what = r.getFieldAs("what");
            memory.n++;
            collect(Row.of("row " + what, shown(time.currentWatermark()), memory.n));
            for (String one : what.split(", ")) {
                act(ctx, time, one.split(" "));
            }
        }

        private static void act(Context ctx, TimeContext<LocalDateTime> time, String[] words) {
            LocalDateTime at = words.length == 1 ? null : time.time().plusSeconds(Long.parseLong(words[1]));
            switch (words[0]) {
                case "set" -> time.registerOnTime(at);
                case "unset" -> time.clearTimer(at);
                case "clear" -> ctx.clearAllTimers();
                case "forget" -> ctx.clearAll();
                case "idle" -> {}
                default -> {
                    if (at == null) {
                        time.clearTimer(words[0]);
                    } else {
                        time.registerOnTime(words[0], at);
                    }
                }
            }
        }

        public void onTimer(OnTimerContext ctx, Memory memory) {
            TimeContext<LocalDateTime> time = ctx.timeContext(LocalDateTime.class);
            String name = ctx.currentTimer();
            memory.n += 100;
            String said = "timer " + name + " " + shown(time.time());
            collect(Row.of(said, shown(time.currentWatermark()), memory.n));
            if ("once".equals(name)) {
                time.registerOnTime("then", time.time().plusSeconds(20));
            } else if ("back".equals(name)) {
                time.registerOnTime("late", time.time().minusSeconds(5));
            } else if ("all".equals(name)) {
                ctx.clearAllTimers();
            }
        }
    }
}
