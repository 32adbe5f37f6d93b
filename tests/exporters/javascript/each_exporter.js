// One span through each of OpenTelemetry's exporters for JavaScript: node each_exporter.js HOST:PORT(HTTP) HOST:PORT(gRPC)
import { BasicTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';

const [http, grpc] = process.argv.slice(2);
const exporters = {
  json: new JsonExporter({ url: `http://${http}/v1/traces` }),
  'json gzip': new JsonExporter({ url: `http://${http}/v1/traces`, compression: 'gzip' }),
  protobuf: new ProtobufExporter({ url: `http://${http}/v1/traces` }),
  grpc: new GrpcExporter({ url: `http://${grpc}`, compression: 'gzip' }),
};
for (const [name, exporter] of Object.entries(exporters)) {
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const span = provider.getTracer('javascript').startSpan(name);
  span.setAttributes({ integer: 5, double: 1.5, text: 'ü', list: ['x', 'y'], flag: true });
  span.addEvent('happened', { large: Number.MAX_SAFE_INTEGER });
  span.end();
  await provider.forceFlush();
  await provider.shutdown();
}
