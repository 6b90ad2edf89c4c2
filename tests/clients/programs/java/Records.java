import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** Records of every kind, written by idempotent producers; a consumer that finds its own place. */
final class Records implements Scenario {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final int OF_EACH = 10;
    private static final int COUNT = CODECS.size() * OF_EACH;
    private static final int STEP_MS = 1_000;
    private static final int OF_OTHER = 3;
    private static final int DELETED = 20;

    /** A record as it was read; its time is in milliseconds after the first one's. */
    record Seen(long offset, long time, String key, String value, String header) {}

    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        TopicPartition filled = new TopicPartition(name, 0), other = new TopicPartition(name, 1);
        long start = System.currentTimeMillis() - 2 * COUNT * STEP_MS;
        Map<String, Object> said = new LinkedHashMap<>();
        broker.createTopic(name, 2);
        said.put("sent", send(broker, filled, start));
        broker.fill(other, OF_OTHER);
        try (KafkaConsumer<String, String> consumer = broker.consumer(Map.of())) {
            consumer.assign(List.of(filled));
            said.put("read", readAll(consumer, filled, start));
            said.put("sought", seek(consumer, filled));
            said.put("places", places(consumer, filled, start));
            said.put("paused", pause(consumer, filled, other));
        }
        try (Admin admin = broker.admin()) {
            admin.deleteRecords(Map.of(filled, RecordsToDelete.beforeOffset(DELETED))).all().get();
        }
        said.put("resets", resets(broker, filled));
        said.put("refused", refusals(broker, filled));
        return said;
    }

    /** Send the same number with each codec; return the offsets that the producers were told. */
    private static List<Long> send(Broker broker, TopicPartition to, long start) throws Exception {
        List<Long> offsets = new ArrayList<>();
        for (String codec : CODECS) {
            Map<String, Object> settings =
                Map.of("compression.type", codec, "enable.idempotence", true, "linger.ms", 10_000);
            try (KafkaProducer<String, String> producer = broker.producer(settings)) {
                List<Future<RecordMetadata>> answers = new ArrayList<>();
                int first = offsets.size();
                for (int number = first; number < first + OF_EACH; number++)
                    answers.add(producer.send(record(to, number, start + number * STEP_MS)));
                producer.flush();
                for (Future<RecordMetadata> each : answers) offsets.add(each.get().offset());
            }
        }
        return offsets;
    }

    private static ProducerRecord<String, String> record(TopicPartition to, int number, long time) {
        String value = number % 7 == 3 ? null : "value " + number;
        ProducerRecord<String, String> record =
            new ProducerRecord<>(to.topic(), to.partition(), time, "key " + number, value);
        record.headers().add("of", ("header " + number).getBytes(StandardCharsets.UTF_8));
        record.headers().add("without", null);
        return record;
    }

    private static List<Seen> readAll(
            KafkaConsumer<String, String> consumer, TopicPartition filled, long start)
            throws Exception {
        consumer.seek(filled, 0);
        List<Seen> seen = new ArrayList<>();
        for (ConsumerRecord<String, String> each : Broker.read(consumer, COUNT)) {
            StringBuilder headers = new StringBuilder();
            for (Header header : each.headers()) {
                byte[] value = header.value();
                headers.append(headers.isEmpty() ? "" : ", ").append(header.key()).append("=");
                headers.append(value == null ? null : new String(value, StandardCharsets.UTF_8));
            }
            long time = each.timestamp() - start;
            seen.add(new Seen(each.offset(), time, each.key(), each.value(), headers.toString()));
        }
        return seen;
    }

    /** Where reading goes on after each way to seek. */
    private static Map<String, Object> seek(
            KafkaConsumer<String, String> consumer, TopicPartition filled) throws Exception {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("after all", consumer.position(filled));
        for (long offset : new long[] {17, 0, COUNT - 1}) {
            consumer.seek(filled, offset);
            said.put("to " + offset, Broker.read(consumer, 1).get(0).offset());
        }
        consumer.seekToBeginning(List.of(filled));
        said.put("to beginning", consumer.position(filled));
        consumer.seekToEnd(List.of(filled));
        said.put("to end", consumer.position(filled));
        return said;
    }

    /** Offsets by place and by time; null where there is none. */
    private static Map<String, Object> places(
            KafkaConsumer<String, String> consumer, TopicPartition filled, long start) {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("beginning", consumer.beginningOffsets(List.of(filled)).get(filled));
        said.put("end", consumer.endOffsets(List.of(filled)).get(filled));
        long last = (COUNT - 1) * STEP_MS;
        for (long time : new long[] {-1, 0, 17 * STEP_MS, 17 * STEP_MS + 1, last, last + 1}) {
            OffsetAndTimestamp found =
                consumer.offsetsForTimes(Map.of(filled, start + time)).get(filled);
            said.put(
                "at " + time,
                found == null ? null : List.of(found.offset(), found.timestamp() - start));
        }
        return said;
    }

    /** How many records of each partition come while one is paused, and after that. */
    private static List<Map<Integer, Integer>> pause(
            KafkaConsumer<String, String> consumer, TopicPartition paused, TopicPartition other)
            throws Exception {
        consumer.assign(List.of(paused, other));
        consumer.seekToBeginning(List.of(paused, other));
        consumer.pause(List.of(paused));
        List<ConsumerRecord<String, String>> meanwhile = Broker.read(consumer, OF_OTHER);
        consumer.poll(Broker.POLL).forEach(meanwhile::add);
        consumer.resume(consumer.paused());
        return List.of(counts(meanwhile), counts(Broker.read(consumer, COUNT)));
    }

    private static Map<Integer, Integer> counts(List<ConsumerRecord<String, String>> records) {
        Map<Integer, Integer> counts = new TreeMap<>();
        for (ConsumerRecord<String, String> each : records)
            counts.merge(each.partition(), 1, Integer::sum);
        return counts;
    }

    /** Where a consumer goes on whose offset is deleted, by its `auto.offset.reset`. */
    private static Map<String, Long> resets(Broker broker, TopicPartition filled)
            throws Exception {
        Map<String, Long> said = new LinkedHashMap<>();
        for (String reset : List.of("earliest", "latest", "by_duration:P1D"))
            try (KafkaConsumer<String, String> consumer =
                    broker.consumer(Map.of("auto.offset.reset", reset, "max.poll.records", 1))) {
                consumer.assign(List.of(filled));
                consumer.seek(filled, 5);
                Broker.until( // a record, or no record and a place at the end
                    () -> {
                        int count = consumer.poll(Broker.POLL).count();
                        long position = consumer.position(filled);
                        said.put(reset, position - count);
                        return position != 5;
                    });
            }
        return said;
    }

    /** What a consumer without a reset is told. */
    private static Map<String, Object> refusals(Broker broker, TopicPartition filled) {
        OffsetAndMetadata behind = new OffsetAndMetadata(1_000, Optional.of(0), "");
        Map<String, Object> said = new LinkedHashMap<>();
        try (KafkaConsumer<String, String> consumer = broker.consumer(Map.of())) {
            consumer.assign(List.of(filled));
            consumer.seek(filled, DELETED - 1);
            said.put("deleted", Refusal.of(() -> Broker.read(consumer, 1)));
            consumer.seek(filled, 1_000);
            said.put("behind the end", Refusal.of(() -> Broker.read(consumer, 1)));
            consumer.seek(filled, behind); // with an epoch, whose end the client asks for
            said.put("truncated", Refusal.of(() -> Broker.read(consumer, 1)));
        }
        return said;
    }
}
