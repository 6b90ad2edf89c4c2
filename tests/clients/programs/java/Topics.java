import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;

/** A topic from its making to its end, by name and by id. */
final class Topics implements Scenario {
    /** What an admin client is told of a topic when it is made, or would have been. */
    record Made(int partitions, int replicas, String retentionMs, String cleanupPolicy) {}

    record Described(String name, boolean hasThatId, List<DescribedPartition> partitions) {}

    record DescribedPartition(int number, int leader, int replicas, int inSync) {}

    private Admin admin;
    private String name;

    @Override
    public Map<String, Object> run(Broker broker, String topic) throws Exception {
        name = topic;
        Map<String, Object> said = new LinkedHashMap<>();
        try (Admin made = broker.admin()) {
            admin = made;
            said.put("only validated", create(new CreateTopicsOptions().validateOnly(true)));
            said.put("is there after that", isThere());
            said.put("made", create(new CreateTopicsOptions()));
            said.put("is there", isThere());
            Uuid id = admin.describeTopics(Set.of(name)).allTopicNames().get().get(name).topicId();
            admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all().get();
            said.put("by name", byName(id));
            said.put("by id", byId(id));
            said.put("refused", refusals());
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            said.put("is there in the end", isThere());
            said.put("refused in the end", refusalsWithoutTopic(id));
        }
        return said;
    }

    private Made create(CreateTopicsOptions options) throws Exception {
        Map<String, String> settings =
            Map.of("retention.ms", "7200000", "cleanup.policy", "compact,delete");
        NewTopic wanted = new NewTopic(name, 2, (short) 1).configs(settings);
        CreateTopicsResult made = admin.createTopics(List.of(wanted), options);
        return new Made(
            made.numPartitions(name).get(),
            made.replicationFactor(name).get(),
            made.config(name).get().get("retention.ms").value(),
            made.config(name).get().get("cleanup.policy").value());
    }

    private boolean isThere() throws Exception {
        return admin.listTopics().names().get().contains(name);
    }

    private Described byName(Uuid id) throws Exception {
        TopicDescription found =
            admin.describeTopics(TopicCollection.ofTopicNames(List.of(name)))
                .allTopicNames()
                .get()
                .get(name);
        return described(found, id);
    }

    private Described byId(Uuid id) throws Exception {
        TopicDescription found =
            admin.describeTopics(TopicCollection.ofTopicIds(List.of(id)))
                .allTopicIds()
                .get()
                .get(id);
        return described(found, id);
    }

    private static Described described(TopicDescription found, Uuid id) {
        List<DescribedPartition> partitions =
            found.partitions().stream()
                .map(
                    each ->
                        new DescribedPartition(
                            each.partition(),
                            each.leader().id(),
                            each.replicas().size(),
                            each.isr().size()))
                .toList();
        return new Described(found.name(), found.topicId().equals(id), partitions);
    }

    private Map<String, Object> refusals() {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("made again", Refusal.of(() -> create(new CreateTopicsOptions())));
        said.put("three replicas", refused(new NewTopic("refused", 1, (short) 3)));
        said.put("bad name", refused(new NewTopic("no such/name", 1, (short) 1)));
        said.put("no partitions", refused(new NewTopic("refused", 0, (short) 1)));
        Map<String, String> bad = Map.of("retention.ms", "soon");
        said.put("bad setting", refused(new NewTopic("refused", 1, (short) 1).configs(bad)));
        said.put(
            "fewer partitions",
            Refusal.of(
                () ->
                    admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get()));
        return said;
    }

    private Refusal refused(NewTopic wanted) {
        return Refusal.of(() -> admin.createTopics(List.of(wanted)).all().get());
    }

    private Map<String, Object> refusalsWithoutTopic(Uuid id) {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("by name", Refusal.of(() -> byName(id)));
        said.put("by id", Refusal.of(() -> byId(id)));
        said.put(
            "deleted by id",
            Refusal.of(
                () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get()));
        said.put(
            "deleted by name",
            Refusal.of(() -> admin.deleteTopics(List.of(name)).all().get()));
        return said;
    }
}
