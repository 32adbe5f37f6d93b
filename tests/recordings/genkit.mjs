// Plays a scenario with Genkit in one of its ways; the turns come on stdin.
// node genkit.mjs <way> <model URL> <OTLP URL>
import { readFileSync } from "node:fs";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

const [way, model, otlp] = process.argv.slice(2);
const { session, system, turns, tools, handover } = JSON.parse(readFileSync(0, "utf-8"));
// Chats, and prompts that take over, are in no version after 1.33.
const version = ["chat", "handover"].includes(way) ? "genkit-chat" : "genkit";
const { genkit, z, InMemorySessionStore } = await import(`${version}/beta`);
const { enableTelemetry } = await import(`${version}/tracing`);

const processor = new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${otlp}/v1/traces` }));
await enableTelemetry({ spanProcessors: [processor] });
const ai = genkit({});

// A provider's plugin: what Genkit asks for, as a chat completion.
const fake = "fake/fake-model";
ai.defineModel({ name: fake, supports: { tools: true } }, async () => {
  const answer = await fetch(`${model}/chat/completions`, { method: "POST", body: "{}" });
  const [{ message }] = (await answer.json()).choices;
  const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: given } }) => ({
    toolRequest: { name, ref: id, input: JSON.parse(given) },
  }));
  const content = calls.length > 0 ? calls : [{ text: message.content }];
  return { finishReason: "stop", message: { role: "model", content } };
});

function run(name, { when, city, unit, days, value }) {
  if (name === "get_weather") return { city, unit, days, temp: 21.5 };
  if (name === "convert") return { value: Math.round((value * 9) / 5 + 32), unit: "F" };
  if (!when.endsWith("19:30")) return { confirmed: true, id: "bk-7", when };
  if (way === "throw") throw new Error("slot 19:30 is full, try 20:00");
  return "Error: slot 19:30 is full, try 20:00";
}

const defined = Object.entries(tools).map(([name, inputJsonSchema]) => {
  const described = { name, description: name, inputJsonSchema };
  if (way === "multipart") {
    return ai.defineTool({ ...described, multipart: true }, async (input) => ({ output: run(name, input) }));
  }
  return ai.defineTool(described, async (input, { interrupt, resumed }) => {
    if (way === "interrupt" && name === "book_table" && !resumed) interrupt({ ask: true });
    return run(name, input);
  });
});
const weather = { model: fake, system, tools: defined, maxTurns: 9 };

async function generate(options) {
  if (way !== "stream") return ai.generate(options);
  const { stream, response } = ai.generateStream(options);
  for await (const _ of stream);
  return response;
}

const flow = ai.defineFlow("weatherAgent", async ({ text, history, resume }) => {
  const asked = text === undefined ? { messages: history, resume } : { prompt: text, messages: history };
  const { system: _, ...rest } = weather;
  return generate({ ...(history?.length ? rest : weather), ...asked });
});
const nameless = ai.defineFlow("weatherAgentWithoutSession", async (text) => (await generate({ ...weather, prompt: text })).text);

async function byFlow() {
  let history = [];
  for (const text of turns) {
    let answer = await flow({ sessionId: session, text, history });
    for (const approved of [false, true]) {
      const [asking] = answer.interrupts ?? [];
      if (!asking) break;
      const tool = defined.find((one) => one.__action.name === asking.toolRequest.name);
      const resume = approved
        ? { restart: [tool.restart(asking, { approved: true })] }
        : { respond: [tool.respond(asking, "The user said no.")] };
      answer = await flow({ sessionId: session, history: answer.messages, resume });
    }
    history = answer.messages;
  }
}

const ways = {
  async nosession() {
    for (const text of turns) await nameless(text);
  },
  async generate() {
    let messages = [];
    for (const text of turns) {
      const { system: _, ...rest } = weather;
      messages = (await generate({ ...(messages.length > 0 ? rest : weather), prompt: text, messages })).messages;
    }
  },
  async throw() {
    for (const text of turns) await flow({ sessionId: session, text }).catch(() => {});
  },
  async prompt() {
    const ask = ai.definePrompt({ ...weather, name: "weather_prompt", input: { schema: z.object({ text: z.string() }) }, prompt: "{{text}}" });
    for (const text of turns) await ask({ text });
  },
  async handover() {
    const [weatherTool, convert, book] = defined;
    const booking = ai.definePrompt({ name: handover, description: "Books tables", model: fake, tools: [book], system: "Book." });
    const options = { ...weather, tools: [weatherTool, convert, booking] };
    const outer = ai.defineFlow("weatherAgent2", async ({ text }) => (await ai.generate({ ...options, prompt: text })).text);
    for (const text of turns) await outer({ sessionId: session, text });
  },
  async chat() {
    const chat = ai.createSession({ sessionId: session }).chat(weather);
    for (const text of turns) await chat.send(text);
  },
  async agent() {
    const agent = ai.defineAgent({ ...weather, name: "weatherAgent3", store: new InMemorySessionStore() });
    const chat = agent.chat({ sessionId: session });
    for (const text of turns) await chat.send(text);
  },
};
await (ways[way] ?? byFlow)();
await processor.forceFlush();
process.exit(0);
