// Writes recorded spans again, by OpenTelemetry's SDK and one of its exporters, with gzip and the ids they had:
// java -cp 'PACKAGES/*' Replay.java PROTOCOL URL FILE...

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.exporter.otlp.trace.OtlpGrpcSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.IdGenerator;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

class Replay {
  static JsonNode current;

  static final IdGenerator RECORDED = new IdGenerator() {
    public String generateTraceId() {
      return current.get("traceId").asText();
    }

    public String generateSpanId() {
      return current.get("spanId").asText();
    }
  };

  public static void main(String[] arguments) throws Exception {
    for (String file : Arrays.asList(arguments).subList(2, arguments.length)) {
      List<JsonNode> requests = new ArrayList<>();
      for (String line : Files.readAllLines(Path.of(file))) requests.add(new ObjectMapper().readTree(line));
      SdkTracerProvider provider = SdkTracerProvider.builder()
          .setIdGenerator(RECORDED)
          .setResource(Resource.create(attributes(requests.get(0).at("/resourceSpans/0/resource/attributes"))))
          .addSpanProcessor(BatchSpanProcessor.builder(exporter(arguments[0], arguments[1])).build())
          .build();
      for (JsonNode request : requests) {
        for (JsonNode scoped : request.at("/resourceSpans/0/scopeSpans")) {
          JsonNode scope = scoped.get("scope");
          Tracer tracer = provider.get(scope.path("name").asText(), scope.path("version").asText(null));
          for (JsonNode span : scoped.get("spans")) write(tracer, span);
        }
      }
      provider.shutdown().join(30, TimeUnit.SECONDS);
    }
  }

  static SpanExporter exporter(String protocol, String url) {
    return protocol.equals("grpc")
        ? OtlpGrpcSpanExporter.builder().setEndpoint(url).setCompression("gzip").build()
        : OtlpHttpSpanExporter.builder().setEndpoint(url).setCompression("gzip").build();
  }

  static void write(Tracer tracer, JsonNode span) {
    current = span;
    Context parent = Context.root();
    if (!span.path("parentSpanId").asText().isEmpty()) {
      parent = parent.with(Span.wrap(SpanContext.create(
          span.get("traceId").asText(), span.get("parentSpanId").asText(), TraceFlags.getSampled(),
          TraceState.getDefault())));
    }
    Span written = tracer.spanBuilder(span.get("name").asText())
        .setParent(parent)
        .setSpanKind(SpanKind.values()[Math.max(span.path("kind").asInt(), 1) - 1])
        .setStartTimestamp(span.get("startTimeUnixNano").asLong(), TimeUnit.NANOSECONDS)
        .setAllAttributes(attributes(span.path("attributes")))
        .startSpan();
    for (JsonNode event : span.path("events")) {
      written.addEvent(event.get("name").asText(), attributes(event.path("attributes")),
          event.get("timeUnixNano").asLong(), TimeUnit.NANOSECONDS);
    }
    int status = span.at("/status/code").asInt();
    written.setStatus(StatusCode.values()[status], span.at("/status/message").asText());
    written.end(span.get("endTimeUnixNano").asLong(), TimeUnit.NANOSECONDS);
  }

  static Attributes attributes(JsonNode pairs) {
    AttributesBuilder builder = Attributes.builder();
    for (JsonNode pair : pairs) {
      String key = pair.get("key").asText();
      JsonNode value = pair.get("value");
      if (value.has("intValue")) {
        builder.put(key, value.get("intValue").asLong());
      } else if (value.has("doubleValue")) {
        builder.put(key, value.get("doubleValue").asDouble());
      } else if (value.has("boolValue")) {
        builder.put(key, value.get("boolValue").asBoolean());
      } else if (value.has("arrayValue")) {
        List<String> texts = new ArrayList<>();
        for (JsonNode one : value.at("/arrayValue/values")) texts.add(one.get("stringValue").asText());
        builder.put(AttributeKey.stringArrayKey(key), texts);
      } else {
        builder.put(key, value.path("stringValue").asText());
      }
    }
    return builder.build();
  }
}
