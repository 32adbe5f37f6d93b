package weather;

import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.MessageChatMemoryAdvisor;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.chat.memory.MessageWindowChatMemory;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.ai.tool.annotation.ToolParam;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** Plays turns: java -jar built.jar SESSION TURN... */
@SpringBootApplication
public class Application {
  public static class Tools {
    public record Restaurant(String name, int id) {}

    public record Weather(String city, String unit, int days, double temp) {}

    public record Converted(double value, String unit) {}

    public record Booked(boolean confirmed, String id, int people, String when) {}

    @Tool(name = "get_weather", description = "Weather forecast.")
    public Weather weather(String city, String unit, int days) {
      return new Weather(city, unit, days, 21.5);
    }

    @Tool(name = "convert", description = "Convert a temperature.")
    public Converted convert(double value, String from_unit, String to_unit) {
      return new Converted(Math.round((value * 9 / 5 + 32) * 100) / 100.0, to_unit);
    }

    @Tool(name = "book_table", description = "Book a table.")
    public Booked book(Restaurant restaurant, int people, String when, @ToolParam(required = false) String notes) {
      if (when.endsWith("19:30")) throw new IllegalArgumentException("slot 19:30 is full, try 20:00");
      return new Booked(true, "bk-7", people, when);
    }
  }

  @Bean
  CommandLineRunner conversation(ChatClient.Builder builder) {
    ChatMemory memory = MessageWindowChatMemory.builder().build();
    ChatClient client = builder.defaultSystem("Be brief.").defaultTools(new Tools())
        .defaultAdvisors(MessageChatMemoryAdvisor.builder(memory).build()).build();
    return arguments -> {
      for (int turn = 1; turn < arguments.length; turn++) {
        System.out.println(client.prompt().user(arguments[turn])
            .advisors(advisors -> advisors.param(ChatMemory.CONVERSATION_ID, arguments[0])).call().content());
      }
    };
  }

  public static void main(String[] arguments) {
    SpringApplication.run(Application.class, arguments);
  }
}
