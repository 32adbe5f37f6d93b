import dev.langchain4j.service.MemoryId;
import dev.langchain4j.service.SystemMessage;
import dev.langchain4j.service.UserMessage;
import io.quarkiverse.langchain4j.RegisterAiService;
import jakarta.enterprise.context.ApplicationScoped;

@RegisterAiService(tools = Tools.class)
@ApplicationScoped
public interface WeatherAgent {
  @SystemMessage("Be brief.")
  String answer(@MemoryId String session, @UserMessage String text);
}
