package fixer;

import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.service.MemoryId;
import dev.langchain4j.service.SystemMessage;
import dev.langchain4j.service.UserMessage;
import io.quarkiverse.langchain4j.RegisterAiService;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.context.control.ActivateRequestContext;
import jakarta.inject.Inject;

/** An agent of LangChain4j in Quarkus, which writes spans of calls by itself. */
@QuarkusMain
public class Agent implements QuarkusApplication {

    /** The tools: the tests pass once a file was edited. */
    @ApplicationScoped
    public static class Tools {

        private boolean mended;

        @Tool(name = "read_file", value = "Read a file.")
        public String readFile(String path) {
            return path + ": total = sum(prices)";
        }

        @Tool(name = "edit_file", value = "Add a line to a file.")
        public String editFile(String path, String text) {
            mended = true;
            return path + " is written";
        }

        @Tool(name = "run_tests", value = "Run the tests of a file.")
        public String runTests(String path) {
            if (!mended) {
                throw new IllegalStateException("1 failed: test_total, expected 42, got 41");
            }
            return "9 passed";
        }
    }

    @RegisterAiService(tools = Tools.class)
    interface Fixer {

        @SystemMessage("You mend code.")
        String fix(@MemoryId String session, @UserMessage String prompt);
    }

    @Inject
    Fixer fixer;

    @Override
    @ActivateRequestContext
    public int run(String... arguments) {
        fixer.fix("ticket-42", "Make the tests in tests/test_cart.py pass.");
        return 0;
    }
}
