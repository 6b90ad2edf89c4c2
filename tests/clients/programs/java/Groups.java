import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;

/** A group with one static member and what it commits; an operator who changes all of it. */
final class Groups implements Scenario {
    private static final String INSTANCE = "one";

    /** An offset of a group, and what was noted with it. */
    record Committed(long offset, String metadata) {
        static Committed of(OffsetAndMetadata committed) {
            return committed == null
                ? null
                : new Committed(committed.offset(), committed.metadata());
        }
    }

    record Described(String state, String assignor, List<DescribedMember> members) {}

    record DescribedMember(String instance, List<Integer> partitions) {}

    private Admin admin;
    private String group;
    private TopicPartition first, second;

    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        group = Member.group(name);
        first = new TopicPartition(name, 0);
        second = new TopicPartition(name, 1);
        broker.createTopic(name, 2);
        broker.fill(first, 10);
        Map<String, Object> said = new LinkedHashMap<>();
        try (Admin made = broker.admin()) {
            admin = made;
            try (Member member = Member.withInstanceId(broker, name, INSTANCE)) {
                Broker.read(member.consumer, 10); // then it has fetched what is committed so far
                said.put("committed", commit(member.consumer));
                said.put("with a member", look());
                said.put("refused with a member", refusals());
            }
            said.put("after it closed", described().state());
            said.put("removed", remove(INSTANCE));
            said.put("without members", look());
            said.put("altered", alter());
            try (Member member = Member.withInstanceId(broker, name, INSTANCE)) {
                said.put("goes on at", Broker.read(member.consumer, 1).get(0).offset());
            }
            remove(INSTANCE);
            admin.deleteConsumerGroupOffsets(group, Set.of(second)).all().get();
            said.put("without the second", offsets());
            admin.deleteConsumerGroups(List.of(group)).all().get();
            said.put("offsets of a deleted group", offsets());
            said.put("refused without a group", refusalsWithoutGroup());
        }
        return said;
    }

    private Map<Integer, Committed> commit(KafkaConsumer<String, String> consumer) {
        consumer.commitSync(Map.of(first, new OffsetAndMetadata(5, "half way")));
        return byNumber(consumer.committed(Set.of(first, second)));
    }

    /** The group as it is described, and the states that it is listed with. */
    private Map<String, Object> look() throws Exception {
        List<String> states = new ArrayList<>();
        for (GroupState state : List.of(GroupState.STABLE, GroupState.EMPTY)) {
            ListGroupsOptions options =
                ListGroupsOptions.forConsumerGroups().inGroupStates(Set.of(state));
            for (GroupListing each : admin.listGroups(options).all().get())
                if (each.groupId().equals(group))
                    states.add(each.groupState().get() + " " + each.type().get());
        }
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("described", described());
        said.put("listed as", states);
        said.put("offsets", offsets());
        return said;
    }

    private Described described() throws Exception {
        ConsumerGroupDescription found =
            admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        List<DescribedMember> members = new ArrayList<>();
        for (MemberDescription each : found.members())
            members.add(
                new DescribedMember(
                    each.groupInstanceId().orElse(null),
                    Member.numbers(each.assignment().topicPartitions())));
        return new Described(found.groupState().toString(), found.partitionAssignor(), members);
    }

    private Map<Integer, Committed> offsets() throws Exception {
        return byNumber(
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    private static Map<Integer, Committed> byNumber(Map<TopicPartition, OffsetAndMetadata> found) {
        Map<Integer, Committed> sorted = new TreeMap<>();
        found.forEach((partition, each) -> sorted.put(partition.partition(), Committed.of(each)));
        return sorted;
    }

    private Map<Integer, Committed> alter() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        wanted.put(first, new OffsetAndMetadata(3, "by an operator"));
        wanted.put(second, new OffsetAndMetadata(0));
        admin.alterConsumerGroupOffsets(group, wanted).all().get();
        return offsets();
    }

    /** Remove a static member; return that it was one. */
    private boolean remove(String instanceId) throws Exception {
        MemberToRemove member = new MemberToRemove(instanceId);
        admin.removeMembersFromConsumerGroup(
                group, new RemoveMembersFromConsumerGroupOptions(List.of(member)))
            .memberResult(member)
            .get();
        return true;
    }

    private Map<String, Object> refusals() {
        Map<TopicPartition, OffsetAndMetadata> wanted = Map.of(first, new OffsetAndMetadata(1));
        Map<String, Object> said = new LinkedHashMap<>();
        said.put(
            "alter offsets",
            Refusal.of(() -> admin.alterConsumerGroupOffsets(group, wanted).all().get()));
        said.put(
            "delete offsets",
            Refusal.of(
                () ->
                    admin.deleteConsumerGroupOffsets(group, Set.of(first))
                        .partitionResult(first)
                        .get()));
        said.put(
            "delete group",
            Refusal.of(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
        said.put("remove a stranger", Refusal.of(() -> remove("nobody")));
        return said;
    }

    private Map<String, Object> refusalsWithoutGroup() {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("describe", Refusal.of(this::described));
        said.put(
            "delete",
            Refusal.of(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
        return said;
    }
}
