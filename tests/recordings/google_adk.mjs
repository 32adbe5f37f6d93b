// Plays a scenario with Google's Agent Development Kit; the turns and the model's steps come on stdin.
// node google_adk.mjs <way> <OTLP URL>
import { readFileSync } from "node:fs";
import { AgentTool, BaseLlm, FunctionTool, InMemoryRunner, LlmAgent, StreamingMode } from "@google/adk";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const [way, name, otlp] = process.argv.slice(2);
const { agent, booking, session, instruction, turns, steps, innerSteps, tools } = JSON.parse(readFileSync(0, "utf-8"));

const processor = new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${otlp}/v1/traces` }));
new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": name }),
  spanProcessors: [processor],
}).register();

class Scripted extends BaseLlm {
  constructor(script) {
    super({ model: "fake-model" });
    this.script = [...script];
  }
  async *generateContentAsync(_, stream) {
    const step = this.script.shift();
    const parts =
      typeof step === "string"
        ? [{ text: step }]
        : step.map(({ id, name, arguments: args }) => ({ functionCall: { id, name, args } }));
    if (stream && typeof step === "string") {
      yield { content: { role: "model", parts: [{ text: step.slice(0, 9) }] }, partial: true };
    }
    yield { content: { role: "model", parts }, turnComplete: true, finishReason: "STOP" };
  }
}

function run(tool, { when, city, unit, days, value }) {
  if (tool === "get_weather") return { city, unit, days, temp: 21.5 };
  if (tool === "convert") return { value: Math.round((value * 9) / 5 + 32), unit: "F" };
  if (when.endsWith("19:30")) throw new Error("slot 19:30 is full, try 20:00");
  return { confirmed: true, id: "bk-7", when };
}

const defined = Object.entries(tools).map(
  ([tool, parameters]) =>
    new FunctionTool({ name: tool, description: tool, parameters, execute: async (input) => run(tool, input) }),
);
const [weather, convert, book] = defined;
const inner = () =>
  new LlmAgent({ name: booking, description: "Books tables", instruction, model: new Scripted(innerSteps), tools: [book] });
const ways = {
  "agent-as-tool": () => ({ tools: [weather, convert, new AgentTool({ agent: inner() })] }),
  subagent: () => ({ tools: [weather, convert], subAgents: [inner()] }),
};
const outer = new LlmAgent({
  name: agent,
  instruction,
  model: new Scripted(steps),
  ...(ways[way]?.() ?? { tools: defined }),
});
const runner = new InMemoryRunner({ agent: outer, appName: "weather" });
await runner.sessionService.createSession({ appName: "weather", userId: "user", sessionId: session });
for (const text of turns) {
  const message = { role: "user", parts: [{ text }] };
  const runConfig = way === "stream" ? { streamingMode: StreamingMode.SSE } : {};
  for await (const _ of runner.runAsync({ userId: "user", sessionId: session, newMessage: message, runConfig }));
}
await processor.forceFlush();
process.exit(0);
