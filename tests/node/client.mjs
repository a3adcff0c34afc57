// One foreign client against a running hub, check by check. Reads from stdin, as JSON, which client to be and where the
// hub is (see tests/clients/hub.py), and writes one JSON object a line: the check, and what was wrong if anything was.

import assert from "node:assert/strict";
import { text } from "node:stream/consumers";

const given = JSON.parse(await text(process.stdin));
const { Client, StdioClientTransport, StreamableHTTPClientTransport, elicitation } = await library(given.library);

// The clients collect notifications for 300 ms before they list anew.
const DEBOUNCE_MS = 300;
const WITHIN_MS = 1000 + DEBOUNCE_MS + 100;

let changed = () => {};

await check("is told why it cannot connect", async () => {
  const broken = client();
  const refused = await failure(broken.connect(over(given.broken)).then(() => broken.listTools()));
  assert.match(refused.message, new RegExp(given.why));
  await broken.close();
});

const connected = client({ listChanged: { tools: { onChanged: (error, tools) => changed(error, tools) } } });
let answering = () => ({ action: "cancel" });
connected.setRequestHandler(elicitation, ({ params }) => answering(params));

await check("connects", async () => {
  await connected.connect(over(given.hub));
  assert.equal(connected.getServerVersion().name, "toolhub");
  assert.deepEqual(connected.getServerCapabilities().tools, { listChanged: true });
  const version = connected.getNegotiatedProtocolVersion?.() ?? given.version;
  assert.equal(version, given.version);
});

await check("lists the tools of its key, in order, and no others", async () => {
  const { tools } = await connected.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), given.tools);
  const { title, description, inputSchema, outputSchema, annotations } = tools.find((tool) => tool.name === "measure");
  assert.deepEqual({ title, description }, { title: "Measure", description: "Measure a text." });
  assert.deepEqual(inputSchema.required, ["text"]);
  assert.equal(outputSchema.type, "object");
  assert.equal(annotations.readOnlyHint, true);
});

await check("calls a tool", async () => {
  const answer = await call("echo", { message: "grüß dich 😀" });
  assert.ok(!answer.isError);
  assert.deepEqual(answer.content, [{ type: "text", text: '{"message":"grüß dich 😀"}' }]);
});

await check("gets an answer that fits the output schema", async () => {
  const answer = await call("measure", { text: "12345" });
  assert.deepEqual(answer.structuredContent, { text: "12345", length: 5, longest: null });
  assert.deepEqual(JSON.parse(answer.content[0].text), answer.structuredContent);
});

await check("sees why a tool with an output schema failed", async () => {
  const answer = await call("measure", { text: "" });
  assert.equal(answer.isError, true);
  assert.match(answer.content[0].text, /^There is nothing to measure/);
});

await check("sees what is wrong with its arguments", async () => {
  const answer = await call("measure", { text: 5 });
  assert.equal(answer.isError, true);
  assert.match(answer.content[0].text, /text/);
});

await check("is refused a tool outside its key as one that does not exist", async () => {
  for (const name of ["calculate", "nobody_has_this"]) {
    const refused = await failure(call(name, {}));
    assert.equal(refused.code, -32602);
    assert.match(refused.message, new RegExp(`Unknown tool: ${name}`));
  }
});

await check("is told how far a call has got", async () => {
  const told = [];
  const answer = await call("climb", { steps: 4 }, { onprogress: (progress) => told.push(progress) });
  assert.equal(answer.content[0].text, "up");
  const expected = [1, 2, 3, 4].map((step) => ({ progress: step, total: 4, message: `step ${step}` }));
  assert.deepEqual(told, expected);
});

await check("puts a question to its user", async () => {
  answering = ({ message, requestedSchema }) => {
    assert.equal(message, "Which size?");
    assert.deepEqual(Object.keys(requestedSchema.properties), ["size", "gift"]);
    return { action: "accept", content: { size: 42, gift: true } };
  };
  assert.equal((await call("order", {})).content[0].text, "accept 42 True");
  answering = () => ({ action: "decline" });
  assert.equal((await call("order", {})).content[0].text, "decline");
});

await check("reads about a tool", async () => {
  const { resources } = await connected.listResources();
  assert.ok(resources.some((resource) => resource.uri === "toolhub://tools"));
  const { contents } = await connected.readResource({ uri: "toolhub://tools/measure" });
  assert.match(contents[0].text, /Measure a text\./);
  await failure(connected.readResource({ uri: "toolhub://tools/calculate" }));
});

await check("gets a prompt", async () => {
  const { prompts } = await connected.listPrompts();
  assert.deepEqual(prompts.map((prompt) => prompt.name), ["compare"]);
  const asked = { ref: { type: "ref/prompt", name: "compare" }, argument: { name: "other", value: "mea" } };
  assert.deepEqual((await connected.complete(asked)).completion.values, ["measure"]);
  const { messages } = await connected.getPrompt({ name: "compare", arguments: { one: "a", other: "bb" } });
  assert.equal(messages[0].content.text, "Measure 'a' and 'bb', and say which is longer.");
});

await check("runs many calls at once", async () => {
  const texts = Array.from({ length: 50 }, (_, number) => "x".repeat(number + 1));
  const answers = await Promise.all(texts.map((text) => call("measure", { text })));
  assert.deepEqual(answers.map((answer) => answer.structuredContent.length), texts.map((text) => text.length));
});

await check("cancels a call", async () => {
  const giveUp = new AbortController();
  const slow = failure(call("rest", { seconds: 20 }, { signal: giveUp.signal }));
  await until(async () => (await calls("rest"))[0]?.status === "started");
  giveUp.abort("enough");
  await slow;
  await until(async () => (await calls("rest"))[0].status === "cancelled");
});

await check("is told within a second of what another process switches", async () => {
  await connected.listTools();
  for (const enabled of [false, true]) {
    const told = new Promise((resolve, reject) => {
      changed = (error, tools) => (error ? reject(error) : resolve(tools.map((tool) => tool.name)));
    });
    const begun = performance.now();
    await operate("PATCH", "tools/echo", { enabled });
    const answer = await call("echo", { message: "hi" });
    assert.equal(answer.isError ?? false, !enabled, "the very next call knows");
    if (!enabled) assert.equal(answer.content[0].text.split("\n")[0], "Tool is disabled: echo");
    const names = await within(WITHIN_MS, told);
    assert.ok(performance.now() - begun < WITHIN_MS);
    assert.deepEqual(names, enabled ? given.tools : given.tools.filter((name) => name !== "echo"));
  }
});

await check("leaves", () => within(3000, connected.close()));

// ---- the client

async function library(name) {
  if (name === "client") {
    const parts = [await import("@modelcontextprotocol/client"), await import("@modelcontextprotocol/client/stdio")];
    return Object.assign({ elicitation: "elicitation/create" }, ...parts);
  }
  const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
  return {
    elicitation: ElicitRequestSchema,
    ...(await import("@modelcontextprotocol/sdk/client/index.js")),
    ...(await import("@modelcontextprotocol/sdk/client/stdio.js")),
    ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
  };
}

function client(options = {}) {
  const eras = { legacy: {}, auto: { versionNegotiation: { mode: "auto" } } };
  const era = eras[given.era] ?? { versionNegotiation: { mode: { pin: given.era } } };
  return new Client({ name: "toolhub-tests", version: "1" }, { capabilities: { elicitation: {} }, ...era, ...options });
}

function over({ url, key, command }) {
  if (command) return new StdioClientTransport({ ...command, stderr: "ignore" });
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
}

// The one of 2026 takes what to do beside the call, the one before it a schema in between.
function call(name, args, options) {
  const asked = { name, arguments: args };
  return given.library === "client" ? connected.callTool(asked, options) : connected.callTool(asked, undefined, options);
}

// ---- the operator, who works with another process of the same hub

async function operate(method, path, body) {
  const { url, key } = given.operator;
  const headers = { "X-API-Key": key, "Content-Type": "application/json" };
  const response = await fetch(`${url}/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
  return response.json();
}

async function calls(tool) {
  return (await operate("GET", `calls?tool=${tool}&limit=1`)).calls;
}

// ---- checks

async function check(name, run) {
  const begun = performance.now();
  let wrong = null;
  try {
    await within(15_000, run());
  } catch (error) {
    wrong = String(error?.stack ?? error);
  }
  console.log(JSON.stringify({ check: name, wrong, ms: Math.round(performance.now() - begun) }));
}

async function failure(promise) {
  const answer = await promise.then((value) => ({ value }), (error) => ({ error }));
  assert.ok(answer.error, `should have failed, and answered ${JSON.stringify(answer.value)}`);
  return answer.error;
}

async function until(condition) {
  while (!(await condition())) await new Promise((resume) => setTimeout(resume, 50));
}

function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
