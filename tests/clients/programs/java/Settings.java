import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.common.config.ConfigResource;

/** Settings of a topic and of the broker: told with where they are from, and changed. */
final class Settings implements Scenario {
    record Described(String value, String source, String type, List<String> synonyms) {
        static Described of(ConfigEntry entry) {
            List<String> synonyms =
                entry.synonyms().stream()
                    .map(each -> each.name() + "=" + each.value() + " " + each.source())
                    .toList();
            return new Described(
                entry.value(), entry.source().toString(), entry.type().toString(), synonyms);
        }
    }

    private static final ConfigResource BROKER =
        new ConfigResource(ConfigResource.Type.BROKER, "1");

    private Admin admin;
    private ConfigResource topic;

    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
        broker.createTopic(name, 1);
        Map<String, Object> said = new LinkedHashMap<>();
        try (Admin made = broker.admin()) {
            admin = made;
            said.put("at first", settings());
            alter(set("retention.ms", "7200000"), set("max.message.bytes", "2000"));
            said.put("set", settings());
            AlterConfigOp appended = op("cleanup.policy", "compact", OpType.APPEND);
            alter(op("retention.ms", null, OpType.DELETE), appended);
            said.put("deleted and appended", settings());
            alter(op("cleanup.policy", "delete", OpType.SUBTRACT));
            said.put("subtracted", settings());
            alter(new AlterConfigsOptions().validateOnly(true), topic, set("retention.ms", "1"));
            said.put("only validated", settings());
            said.put("refused", refusals());
            said.put("settings without a text", undocumented());
            said.put("of the broker", Described.of(describe(BROKER).get("num.partitions")));
            said.put("resources", resources());
        }
        return said;
    }

    private static AlterConfigOp set(String name, String value) {
        return op(name, value, OpType.SET);
    }

    private static AlterConfigOp op(String name, String value, OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private Void alter(AlterConfigOp... changes) throws Exception {
        return alter(new AlterConfigsOptions(), topic, changes);
    }

    private Void alter(
            AlterConfigsOptions options, ConfigResource resource, AlterConfigOp... changes)
            throws Exception {
        return admin
            .incrementalAlterConfigs(Map.of(resource, List.of(changes)), options)
            .all()
            .get();
    }

    /** The settings that this scenario changes. */
    private Map<String, Described> settings() throws Exception {
        Config found = describe(topic);
        Map<String, Described> said = new LinkedHashMap<>();
        for (String name : List.of("retention.ms", "max.message.bytes", "cleanup.policy"))
            said.put(name, Described.of(found.get(name)));
        return said;
    }

    private Config describe(ConfigResource resource) throws Exception {
        DescribeConfigsOptions options =
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return admin.describeConfigs(List.of(resource), options).all().get().get(resource);
    }

    /** Names of settings without documentation; there are to be none. */
    private List<String> undocumented() throws Exception {
        return Stream.concat(
                describe(topic).entries().stream(), describe(BROKER).entries().stream())
            .filter(each -> each.documentation() == null || each.documentation().isEmpty())
            .map(ConfigEntry::name)
            .toList();
    }

    private Map<String, Object> refusals() {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("bad value", Refusal.of(() -> alter(set("retention.ms", "soon"))));
        said.put("no such setting", Refusal.of(() -> alter(set("retention.mss", "1"))));
        AlterConfigOp appended = op("retention.ms", "1", OpType.APPEND);
        said.put("append to a number", Refusal.of(() -> alter(appended)));
        AlterConfigsOptions options = new AlterConfigsOptions();
        AlterConfigOp ofBroker = set("num.partitions", "3");
        said.put("of the broker", Refusal.of(() -> alter(options, BROKER, ofBroker)));
        ConfigResource other = new ConfigResource(ConfigResource.Type.TOPIC, "never-made");
        said.put(
            "of no topic",
            Refusal.of(() -> alter(options, other, set("retention.ms", "1"))));
        said.put("described of no topic", Refusal.of(() -> describe(other)));
        return said;
    }

    /** Which of both are listed as having settings. */
    private List<String> resources() throws Exception {
        ListConfigResourcesOptions options = new ListConfigResourcesOptions();
        return admin.listConfigResources(Set.of(), options).all().get().stream()
            .filter(each -> each.equals(topic) || each.equals(BROKER))
            .map(each -> each.type().toString())
            .sorted()
            .toList();
    }
}
