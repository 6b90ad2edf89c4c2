// Runs main methods of Kafka's tools one after the other in one JVM: starting one takes longer
// than what a tool does. On standard input: the number of arguments, the class and the arguments,
// and what the tool is to read, each as a line of Base64. On standard output: exit code, a space,
// and what the tool printed, in Base64.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    static class Exited extends Error {}

    static Integer code;
    static List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        Exit.setExitProcedure(Tools::exit);
        Exit.setHaltProcedure(Tools::exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String count; (count = requests.readLine()) != null; ) {
            String[] call = new String[Integer.parseInt(count)];
            for (int number = 0; number < call.length; number++) call[number] = text(requests);
            System.setIn(new ByteArrayInputStream(text(requests).getBytes()));
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true));
            System.setErr(System.out);
            run(call);
            System.out.flush();
            answers.println(code + " " + Base64.getEncoder().encodeToString(said.toByteArray()));
            answers.flush();
        }
    }

    static String text(BufferedReader requests) throws Exception {
        return new String(Base64.getDecoder().decode(requests.readLine()));
    }

    static void exit(int status, String message) {
        if (message != null) System.err.println(message);
        if (code == null) code = status;
        throw new Exited();
    }

    static void run(String[] call) throws Exception {
        code = null;
        hooks.clear();
        String[] rest = java.util.Arrays.copyOfRange(call, 1, call.length);
        try {
            Class.forName(call[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Exited)) {
                failed.getCause().printStackTrace();
                if (code == null) code = 1;
            }
        }
        if (code == null) code = 0;
        for (Runnable hook : hooks) hook.run();
    }
}
