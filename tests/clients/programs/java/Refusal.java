import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/** The exception that a user gets to see, without its package, and what it says. */
record Refusal(String type, String reason) {
    /** Do what is to be refused; null if it was not. */
    static Refusal of(Callable<?> call) {
        try {
            call.call();
            return null;
        } catch (ExecutionException failed) { // of a future: the cause is what the client raised
            return of(failed.getCause());
        } catch (Exception failed) {
            return of(failed);
        }
    }

    private static Refusal of(Throwable failed) {
        return new Refusal(failed.getClass().getSimpleName(), failed.getMessage());
    }
}
