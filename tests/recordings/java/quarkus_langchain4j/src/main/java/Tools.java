import dev.langchain4j.agent.tool.P;
import dev.langchain4j.agent.tool.Tool;
import jakarta.enterprise.context.ApplicationScoped;
import java.util.Map;

/** The three tools. */
@ApplicationScoped
public class Tools {
  public record Restaurant(String name, int id) {}

  public record Weather(String city, String unit, int days, double temp) {}

  public record Converted(double value, String unit) {}

  public record Booked(boolean confirmed, String id, int people, String when) {}

  @Tool(name = "get_weather", value = "Weather forecast.")
  public Weather weather(@P("city") String city, @P("unit") String unit, @P("days") int days) {
    return new Weather(city, unit, days, 21.5);
  }

  @Tool(name = "convert", value = "Convert a temperature.")
  public Converted convert(@P("value") double value, @P("from_unit") String from_unit, @P("to_unit") String to_unit) {
    return new Converted(Math.round((value * 9 / 5 + 32) * 100) / 100.0, to_unit);
  }

  @Tool(name = "book_table", value = "Book a table.")
  public Booked book(Restaurant restaurant, int people, String when, @P(value = "wishes", required = false) String notes) {
    if (when.endsWith("19:30")) throw new IllegalArgumentException("slot 19:30 is full, try 20:00");
    return new Booked(true, "bk-7", people, when);
  }
}
