import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A consumer in the group of its topic, and what its listener was told. */
final class Member implements ConsumerRebalanceListener, AutoCloseable {
    private static final Map<String, Object> SETTINGS =
        Map.of(
            "auto.offset.reset", "earliest",
            "session.timeout.ms", 6_000,
            "heartbeat.interval.ms", 200); // so often it may learn that the group rebalances

    /** Partitions that came or went; of cooperative members also calls without any: left out. */
    record Event(String what, List<Integer> partitions) {}

    final KafkaConsumer<String, String> consumer;
    final List<Event> events = new ArrayList<>();

    Member(Broker broker, String topic, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(SETTINGS);
        settings.put("group.id", group(topic));
        settings.putAll(more);
        consumer = broker.consumer(settings);
        consumer.subscribe(List.of(topic), this);
    }

    static Member withInstanceId(Broker broker, String topic, String instanceId) {
        return new Member(broker, topic, Map.of("group.instance.id", instanceId));
    }

    static String group(String topic) {
        return "of-" + topic;
    }

    List<Integer> partitions() {
        return numbers(consumer.assignment());
    }

    int generation() {
        return consumer.groupMetadata().generationId();
    }

    String memberId() {
        return consumer.groupMetadata().memberId();
    }

    /** Poll all of these in turn until it is so: none of them can rebalance without the others. */
    static void pollUntil(Callable<Boolean> isSo, Member... members) throws Exception {
        Broker.until(
            () -> {
                for (Member member : members) member.consumer.poll(Broker.POLL);
                return isSo.call();
            });
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        note("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        note("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        note("lost", partitions);
    }

    private void note(String what, Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty()) events.add(new Event(what, numbers(partitions)));
    }

    static List<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().toList();
    }

    @Override
    public void close() {
        consumer.close();
    }
}
