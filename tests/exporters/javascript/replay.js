// Writes recorded spans again, by OpenTelemetry's SDK and one of its exporters, with gzip and the ids they had:
// node replay.js PROTOCOL URL FILE...
import { readFileSync } from 'node:fs';
import { ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const [protocol, url, ...files] = process.argv.slice(2);
const Exporter = { grpc: GrpcExporter, 'http/json': JsonExporter, 'http/protobuf': ProtobufExporter }[protocol];

function plain({ intValue, arrayValue, ...other }) {
  if (intValue !== undefined) return Number(intValue);
  return arrayValue ? (arrayValue.values ?? []).map(plain) : Object.values(other)[0];
}

const attributes = (pairs = []) => Object.fromEntries(pairs.map(({ key, value }) => [key, plain(value)]));
const time = (nanoseconds) => [Number(BigInt(nanoseconds) / 1000000000n), Number(BigInt(nanoseconds) % 1000000000n)];

let current;
const idGenerator = { generateTraceId: () => current.traceId, generateSpanId: () => current.spanId };

function write(tracer, span) {
  current = span;
  const parent = { traceId: span.traceId, spanId: span.parentSpanId, traceFlags: TraceFlags.SAMPLED, isRemote: false };
  const written = tracer.startSpan(
    span.name,
    { kind: (span.kind || 1) - 1, startTime: time(span.startTimeUnixNano), attributes: attributes(span.attributes) },
    span.parentSpanId ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT,
  );
  for (const event of span.events ?? []) {
    written.addEvent(event.name, attributes(event.attributes), time(event.timeUnixNano));
  }
  written.setStatus({ code: span.status?.code ?? 0, message: span.status?.message });
  written.end(time(span.endTimeUnixNano));
}

for (const file of files) {
  const requests = readFileSync(file, 'utf-8').trim().split('\n').map(JSON.parse);
  const provider = new BasicTracerProvider({
    idGenerator,
    resource: resourceFromAttributes(attributes(requests[0].resourceSpans[0].resource.attributes)),
    spanProcessors: [new BatchSpanProcessor(new Exporter({ url, compression: 'gzip' }))],
  });
  for (const { scope, spans } of requests.flatMap((request) => request.resourceSpans[0].scopeSpans)) {
    for (const span of spans) write(provider.getTracer(scope.name, scope.version), span);
  }
  await provider.shutdown();
}
