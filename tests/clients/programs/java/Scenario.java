import java.util.Map;

/** Something a user does with a few clients. */
interface Scenario {
    /** Go through it; return what was seen, by name, as Jackson can write it. */
    Map<String, Object> run(Broker broker, String name) throws Exception;
}
