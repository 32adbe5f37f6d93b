import io.opentelemetry.instrumentation.annotations.SpanAttribute;
import io.opentelemetry.instrumentation.annotations.WithSpan;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.inject.Inject;

/** What a program says around its agent: Quarkus LangChain4j itself writes no session id. */
@ApplicationScoped
public class Conversation {
  @Inject
  WeatherAgent agent;

  @WithSpan("chat")
  public String say(@SpanAttribute("session.id") String session, String text) {
    return agent.answer(session, text);
  }
}
