import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;

/** Two members that give up only what moves: one joins, and leaves again (KIP-429). */
final class CooperativeMembers implements Scenario {
    private static final int PARTITIONS = 6;
    private static final Map<String, Object> COOPERATIVE =
        Map.of("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());

    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        broker.createTopic(name, PARTITIONS);
        Map<String, Object> said = new LinkedHashMap<>();
        try (Member first = new Member(broker, name, COOPERATIVE)) {
            Member.pollUntil(() -> first.partitions().size() == PARTITIONS, first);
            try (Member second = new Member(broker, name, COOPERATIVE)) {
                Member.pollUntil(() -> second.partitions().size() == 3, first, second);
                said.put("moved", second.partitions());
                said.put("kept", first.partitions());
                said.put("second", List.copyOf(second.events));
            }
            Member.pollUntil(() -> first.partitions().size() == PARTITIONS, first);
            said.put("first", List.copyOf(first.events));
        }
        return said;
    }
}
