import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** What an admin client can tell of records: where, whose, how large, on which broker. */
final class Data implements Scenario {
    private static final int COUNT = 10;
    private static final int NEWEST = 4; // the record with the largest time is not the last one
    private static final int STEP_MS = 1_000;

    /** A place in a partition; its time is in milliseconds after the first record's, or -1. */
    record Place(long offset, long time, Integer epoch) {}

    record Producer(int epoch, int lastSequence, long lastTime, boolean isInTransaction) {}

    record Directory(List<Integer> partitions, boolean hasRecords, boolean tellsItsRoom) {}

    private Admin admin;
    private TopicPartition partition;
    private long start;

    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        partition = new TopicPartition(name, 0);
        start = System.currentTimeMillis() - 60_000;
        broker.createTopic(name, 2);
        send(broker);
        Map<String, Object> said = new LinkedHashMap<>();
        try (Admin made = broker.admin()) {
            admin = made;
            said.put("places", places());
            said.put("producers", producers());
            said.put("directories", directories());
            said.put("cluster", cluster());
            said.put("deleted before 3", delete(3));
            said.put("earliest after that", place(OffsetSpec.earliest()));
            said.put("deleted behind the end", Refusal.of(() -> delete(COUNT + 1)));
            said.put("deleted all", delete(-1));
            said.put("latest after that", place(OffsetSpec.latest()));
            said.put("largest time after that", place(OffsetSpec.maxTimestamp()));
        }
        return said;
    }

    private void send(Broker broker) throws Exception {
        try (KafkaProducer<String, String> producer = broker.producer(Map.of("linger.ms", 10_000))) {
            for (int number = 0; number < COUNT; number++) {
                long time = start + (number == NEWEST ? COUNT : number) * STEP_MS;
                producer.send(
                    new ProducerRecord<>(
                        partition.topic(), partition.partition(), time, "key", "value " + number));
            }
            producer.flush();
        }
    }

    private Map<String, Place> places() throws Exception {
        Map<String, OffsetSpec> specs = new LinkedHashMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("largest time", OffsetSpec.maxTimestamp());
        specs.put("by time", OffsetSpec.forTimestamp(start + 3 * STEP_MS));
        specs.put("by time, out of order", OffsetSpec.forTimestamp(start + 6 * STEP_MS - 1));
        specs.put("by time, behind all", OffsetSpec.forTimestamp(start + 60 * STEP_MS));
        specs.put("earliest local", OffsetSpec.earliestLocal());
        specs.put("latest tiered", OffsetSpec.latestTiered());
        specs.put("earliest pending upload", OffsetSpec.earliestPendingUpload());
        Map<String, Place> said = new LinkedHashMap<>();
        for (Map.Entry<String, OffsetSpec> each : specs.entrySet())
            said.put(each.getKey(), place(each.getValue()));
        return said;
    }

    private Place place(OffsetSpec spec) throws Exception {
        ListOffsetsResultInfo found =
            admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
        long time = found.timestamp() < 0 ? -1 : found.timestamp() - start;
        return new Place(found.offset(), time, found.leaderEpoch().orElse(null));
    }

    private List<Producer> producers() throws Exception {
        Collection<ProducerState> found =
            admin.describeProducers(List.of(partition))
                .partitionResult(partition)
                .get()
                .activeProducers();
        return found.stream()
            .map(
                each ->
                    new Producer(
                        each.producerEpoch(),
                        each.lastSequence(),
                        each.lastTimestamp() - start,
                        each.currentTransactionStartOffset().isPresent()))
            .toList();
    }

    /** The directories of the broker, with the partitions of this topic in them. */
    private List<Directory> directories() throws Exception {
        Collection<LogDirDescription> found =
            admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values();
        return found.stream().map(this::directory).toList();
    }

    private Directory directory(LogDirDescription found) {
        Map<Integer, Long> sizes = new TreeMap<>();
        found.replicaInfos().forEach(
            (each, replica) -> {
                if (each.topic().equals(partition.topic()))
                    sizes.put(each.partition(), replica.size());
            });
        boolean tellsItsRoom =
            found.totalBytes().getAsLong() >= found.usableBytes().getAsLong()
                && found.usableBytes().getAsLong() > 0;
        boolean hasRecords = sizes.get(0) > 0 && sizes.get(1) == 0;
        return new Directory(List.copyOf(sizes.keySet()), hasRecords, tellsItsRoom);
    }

    private Map<String, Object> cluster() throws Exception {
        DescribeClusterResult found =
            admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Map<String, Object> said = new LinkedHashMap<>();
        said.put(
            "nodes",
            found.nodes().get().stream()
                .map(each -> each.id() + " " + each.host() + ":" + each.port())
                .toList());
        said.put("controller", found.controller().get().id());
        said.put("id", found.clusterId().get());
        said.put(
            "operations",
            found.authorizedOperations().get().stream().map(Object::toString).sorted().toList());
        return said;
    }

    private long delete(long before) throws Exception {
        return admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before)))
            .lowWatermarks()
            .get(partition)
            .get()
            .lowWatermark();
    }
}
