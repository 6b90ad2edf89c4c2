import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** What is not built yet: clients are told so, and do not wait for it. */
final class NotOffered implements Scenario {
    @Override
    public Map<String, Object> run(Broker broker, String name) throws Exception {
        Map<String, Object> said = new LinkedHashMap<>();
        try (Admin admin = broker.admin()) {
            ClientQuotaFilter quotas = ClientQuotaFilter.all();
            said.put(
                "quotas", Refusal.of(() -> admin.describeClientQuotas(quotas).entities().get()));
            AclBindingFilter acls = AclBindingFilter.ANY;
            said.put("acls", Refusal.of(() -> admin.describeAcls(acls).values().get()));
            said.put("transactions", Refusal.of(() -> admin.listTransactions().all().get()));
        }
        Map<String, Object> settings = Map.of("transactional.id", name);
        try (KafkaProducer<String, String> producer = broker.producer(settings)) {
            said.put("a transactional producer", Refusal.of(() -> begin(producer)));
        }
        return said;
    }

    /** A hang would end as well, in a TimeoutException. */
    private static Void begin(KafkaProducer<String, String> producer) {
        producer.initTransactions();
        return null;
    }
}
