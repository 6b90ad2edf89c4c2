import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Where the broker is: makes clients of it, and does with them what every scenario begins with. */
final class Broker {
    static final Duration POLL = Duration.ofMillis(50);
    private static final Duration WAIT = Duration.ofSeconds(20); // longer than anything takes

    /** Of each kind of client; what is not done by then is a TimeoutException. */
    private static final Map<String, Object> TIME_LIMITS =
        Map.of(
            "request.timeout.ms", 10_000,
            "default.api.timeout.ms", 20_000,
            "max.block.ms", 10_000);

    private final String address;

    Broker(String address) {
        this.address = address;
    }

    Admin admin() {
        return Admin.create(settings(Map.of()));
    }

    KafkaProducer<String, String> producer(Map<String, Object> more) {
        return new KafkaProducer<>(settings(more), new StringSerializer(), new StringSerializer());
    }

    /** A consumer without a group; it raises what has no answer instead of starting elsewhere. */
    KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of("auto.offset.reset", "none"));
        settings.put("enable.auto.commit", false);
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(TIME_LIMITS);
        settings.put("bootstrap.servers", address);
        settings.putAll(more);
        return settings;
    }

    void createTopic(String topic, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    /** Send so many records `value N` without keys to a partition. */
    void fill(TopicPartition partition, int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int number = 0; number < count; number++)
                producer.send(
                    new ProducerRecord<>(
                        partition.topic(), partition.partition(), null, "value " + number));
            producer.flush();
        }
    }

    /** Read so many records. */
    static List<ConsumerRecord<String, String>> read(
            KafkaConsumer<String, String> consumer, int count) throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        until(
            () -> {
                consumer.poll(POLL).forEach(found::add);
                return found.size() >= count;
            });
        return found;
    }

    /** Do a step again and again until it says that it is so. */
    static void until(Callable<Boolean> isSo) throws Exception {
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (!isSo.call())
            if (System.nanoTime() > deadline) throw new IllegalStateException("waited too long");
    }
}
