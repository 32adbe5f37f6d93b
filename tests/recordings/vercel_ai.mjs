// Plays a scenario with one version of the AI SDK; the turns come on stdin.
// node vercel_ai.mjs <version> <mode> <model URL> <OTLP URL>
import { readFileSync } from "node:fs";
import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const [version, mode, model, otlp] = process.argv.slice(2);
const { agent, sessions, tools } = JSON.parse(readFileSync(0, "utf-8"));
const ai = await import(`ai${version}`);
const { createOpenAI } = await import(`openai${version}`);

const exporter = new OTLPTraceExporter({ url: `${otlp}/v1/traces` });
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": `vercel-ai-v${version}` }),
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
provider.register();

function run(name, { when, city, unit, days, value }) {
  if (name === "get_weather") return { city, unit, days, temp: 21.5 };
  if (name === "convert") return { value: Math.round((value * 9) / 5 + 32), unit: "F" };
  if (when.endsWith("19:30")) throw new Error("slot 19:30 is full, try 20:00");
  return { confirmed: true, id: "bk-7", when };
}

const described = Object.fromEntries(
  Object.entries(tools).map(([name, parameters]) => {
    const schema = ai.jsonSchema(parameters);
    const execute = async (input) => run(name, input);
    return [name, ai.tool({ description: name, inputSchema: schema, execute })];
  }),
);

async function say(session, turn, history) {
  const options = {
    model: createOpenAI({ baseURL: `${model}/${session.id}`, apiKey: "none" }).chat("fake-model"),
    system: "Be brief.",
    messages: [...history, { role: "user", content: turn }],
    tools: described,
    stopWhen: ai.stepCountIs(9),
    experimental_telemetry: {
      isEnabled: true,
      recordInputs: mode !== "nocontent",
      recordOutputs: mode !== "nocontent",
      functionId: agent,
      metadata: { sessionId: session.id },
    },
  };
  const result = mode === "stream" ? ai.streamText(options) : await ai.generateText(options);
  if (mode === "stream") await result.consumeStream();
  const response = await result.response;
  return [...options.messages, ...response.messages];
}

async function converse() {
  const histories = Object.fromEntries(sessions.map((session) => [session.id, []]));
  for (let number = 0; number < 2; number++) {
    for (const session of sessions) {
      histories[session.id] = await say(session, session.turns[number], histories[session.id]);
    }
  }
}

if (sessions.length > 1) {
  await trace.getTracer("batch_runner").startActiveSpan("nightly batch", async (span) => {
    await converse();
    span.end();
  });
} else {
  await converse();
}
await provider.forceFlush();
process.exit(0);
