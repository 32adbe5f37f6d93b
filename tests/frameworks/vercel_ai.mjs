// One turn with Vercel's AI SDK; its spans go where OTEL_EXPORTER_OTLP_ENDPOINT says: to the gateway.
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();

const tools = {
  get_weather: tool({
    inputSchema: z.object({ city: z.string(), unit: z.string(), days: z.number() }),
    execute: async ({ city, unit, days }) => ({ city, unit, days, temp: 21.5 }),
  }),
  convert: tool({
    inputSchema: z.object({ value: z.number(), from_unit: z.string(), to_unit: z.string() }),
    execute: async ({ value, to_unit }) => ({ value: (value * 9) / 5 + 32, unit: to_unit }),
  }),
};
await generateText({
  model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat("fake-model"),
  prompt: "What's the weather in Paris in celsius, and convert 21.5 C to F?",
  tools,
  stopWhen: stepCountIs(9),
  experimental_telemetry: { isEnabled: true, metadata: { sessionId: "sess-weather-1" } },
});
await provider.shutdown();
