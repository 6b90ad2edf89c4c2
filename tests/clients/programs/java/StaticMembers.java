import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Two static members: one goes and comes back, and one is replaced while it is there (KIP-345). */
final class StaticMembers implements Scenario {
    private static final int PARTITIONS = 4;

    /** A member at some time. */
    record Seen(List<Integer> partitions, int generation) {
        static Seen of(Member member) {
            return new Seen(member.partitions(), member.generation());
        }
    }

    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        broker.createTopic(name, PARTITIONS);
        Map<String, Object> said = new LinkedHashMap<>();
        try (Member stays = Member.withInstanceId(broker, name, "stays");
                Member goes = Member.withInstanceId(broker, name, "goes")) {
            Member.pollUntil(
                () -> stays.partitions().size() == 2 && goes.partitions().size() == 2,
                stays, goes);
            said.put("stays", Seen.of(stays));
            said.put("goes", Seen.of(goes));
            stays.events.clear();
            String oldId = goes.memberId();
            goes.consumer.close();
            try (Member again = Member.withInstanceId(broker, name, "goes")) {
                Member.pollUntil(() -> !again.partitions().isEmpty(), stays, again);
                said.put("comes back", Seen.of(again));
                said.put("has a new id", !again.memberId().equals(oldId));
                fence(broker, name, stays, again, said);
            }
        }
        return said;
    }

    /** Let a second one come with the instance id of one that is there. */
    private static void fence(
            Broker broker, String name, Member stays, Member first, Map<String, Object> said)
            throws Exception {
        try (Member second = Member.withInstanceId(broker, name, "goes")) {
            Member.pollUntil(() -> !second.partitions().isEmpty(), stays, second);
            said.put("replaces", Seen.of(second));
            said.put("fenced", Refusal.of(() -> pollOn(first)));
            said.put("told who stays", List.copyOf(stays.events)); // more follows when it closes
            said.put("stays in the end", Seen.of(stays));
        }
    }

    private static Void pollOn(Member member) throws Exception {
        Member.pollUntil(() -> false, member);
        return null;
    }
}
