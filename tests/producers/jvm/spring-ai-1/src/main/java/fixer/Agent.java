package fixer;

import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** An agent of Spring AI 1, which calls the tools within the request to the model. */
@SpringBootApplication
public class Agent {

    /** The tools: the tests pass once a file was edited. */
    static class Tools {

        private boolean mended;

        @Tool(name = "read_file", description = "Read a file.")
        String readFile(String path) {
            return path + ": total = sum(prices)";
        }

        @Tool(name = "edit_file", description = "Add a line to a file.")
        String editFile(String path, String text) {
            mended = true;
            return path + " is written";
        }

        @Tool(name = "run_tests", description = "Run the tests of a file.")
        String runTests(String path) {
            if (!mended) {
                throw new IllegalStateException("1 failed: test_total, expected 42, got 41");
            }
            return "9 passed";
        }
    }

    @Bean
    CommandLineRunner run(ChatClient.Builder builder) {
        return arguments -> builder.build()
            .prompt()
            .system("You mend code.")
            .user("Make the tests in tests/test_cart.py pass.")
            .tools(new Tools())
            .advisors(advisors -> advisors.param(ChatMemory.CONVERSATION_ID, "ticket-42"))
            .call()
            .content();
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Agent.class, arguments).close();
    }
}
