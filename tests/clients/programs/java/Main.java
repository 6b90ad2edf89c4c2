// Kafka's Java client in what its command line tools leave out. Arguments: scenario, broker, a name
// for the topics and groups that the scenario makes. Says what it saw as one line of JSON.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;

public final class Main {
    private static final Map<String, Scenario> SCENARIOS =
        Map.of(
            "records", new Records(),
            "static-members", new StaticMembers(),
            "cooperative-members", new CooperativeMembers(),
            "groups", new Groups(),
            "topics", new Topics(),
            "settings", new Settings(),
            "data", new Data(),
            "not-offered", new NotOffered());

    public static void main(String[] arguments) throws Exception {
        Scenario scenario = SCENARIOS.get(arguments[0]);
        Map<String, Object> said = scenario.run(new Broker(arguments[1]), arguments[2]);
        System.out.println(new ObjectMapper().writeValueAsString(said));
    }
}
