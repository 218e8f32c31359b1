import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.functions.util.ListCollector;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DeserializationFormatFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.DataType;
import org.apache.flink.util.Collector;

/**
 * 'connector' = 'repeat': the rows of a file, decoded once and then emitted again and again, so that a row costs next
 * to nothing and what is behind the source can be measured. The first 'warm-ms' of CPU time of the process are not
 * counted; of the 'measure-ms' behind them a line "label nanoseconds-per-row" is added to the file 'marks', which is that of
 * the best of four parts: all threads count, and a compiler or collector that happens to run is no cost of the rows.
 */
public final class RepeatFactory implements DynamicTableSourceFactory {
    private static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();
    private static final ConfigOption<String> MARKS = ConfigOptions.key("marks").stringType().noDefaultValue();
    private static final ConfigOption<String> LABEL = ConfigOptions.key("label").stringType().defaultValue("-");
    private static final ConfigOption<Integer> WARM = ConfigOptions.key("warm-ms").intType().defaultValue(1000);
    private static final ConfigOption<Integer> MEASURE = ConfigOptions.key("measure-ms").intType().defaultValue(1000);

    @Override
    public String factoryIdentifier() {
        return "repeat";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH, MARKS, FactoryUtil.FORMAT);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(LABEL, WARM, MEASURE);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        DecodingFormat<DeserializationSchema<RowData>> format =
                helper.discoverDecodingFormat(DeserializationFormatFactory.class, FactoryUtil.FORMAT);
        helper.validate();
        ReadableConfig options = helper.getOptions();
        Task task = new Task(options.get(PATH), options.get(MARKS), options.get(LABEL),
                options.get(WARM) * 1_000_000L, options.get(MEASURE) * 1_000_000L);
        return new Source(task, format, context.getPhysicalRowDataType());
    }

    private record Task(String path, String marks, String label, long warm, long measure) implements Serializable {}

    private record Source(Task task, DecodingFormat<DeserializationSchema<RowData>> format, DataType type)
            implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return format.getChangelogMode();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            DeserializationSchema<RowData> schema = format.createRuntimeDecoder(context, type);
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext provider, StreamExecutionEnvironment env) {
                    return env.fromData(1).flatMap(new Repeat(task, schema)).returns(schema.getProducedType());
                }

                @Override
                public boolean isBounded() {
                    return true;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "repeat";
        }
    }

    private static final int WINDOWS = 4;

    private static final class Repeat extends RichFlatMapFunction<Integer, RowData> {
        private final Task task;
        private final DeserializationSchema<RowData> schema;

        Repeat(Task task, DeserializationSchema<RowData> schema) {
            this.task = task;
            this.schema = schema;
        }

        @Override
        public void flatMap(Integer once, Collector<RowData> out) throws Exception {
            List<RowData> rows = decoded();
            emit(rows, out, task.warm());
            double best = Double.MAX_VALUE;
            for (int i = 0; i < WINDOWS; i++) {
                long began = cpuNanos();
                long count = emit(rows, out, task.measure() / WINDOWS);
                best = Math.min(best, (double) (cpuNanos() - began) / count);
            }
            String line = task.label() + " " + best + "\n";
            Files.writeString(Path.of(task.marks()), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }

        /** Emits rows for so many nanoseconds of the process's CPU time; the number of them. */
        private static long emit(List<RowData> rows, Collector<RowData> out, long nanos) {
            long began = cpuNanos();
            long count = 0;
            while (cpuNanos() - began < nanos) {
                for (RowData row : rows) {
                    out.collect(row);
                }
                count += rows.size();
            }
            return count;
        }

        private List<RowData> decoded() throws Exception {
            schema.open(null);
            List<RowData> rows = new ArrayList<>();
            ListCollector<RowData> collector = new ListCollector<>(rows);
            for (String line : Files.readAllLines(Path.of(task.path()))) {
                schema.deserialize(line.getBytes(StandardCharsets.UTF_8), collector);
            }
            return rows;
        }

        private static long cpuNanos() {
            return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                    .getProcessCpuTime();
        }
    }
}
