import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.inject.Inject;

/** Plays turns: java -jar quarkus-run.jar SESSION TURN... */
@QuarkusMain
public class Main implements QuarkusApplication {
  @Inject
  Conversation conversation;

  @Override
  public int run(String... arguments) {
    for (int turn = 1; turn < arguments.length; turn++) {
      System.out.println(conversation.say(arguments[0], arguments[turn]));
    }
    return 0;
  }
}
