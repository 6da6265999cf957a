// Tool loops with the official JavaScript SDK. Arguments: base URL, key, steps, ways, models. Prints what it saw as JSON.
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

const [baseURL, apiKey, steps, ways, ...models] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const properties = { step: { type: "integer" }, part: { type: "integer" } };
const parameters = { type: "object", properties, required: ["step", "part"], additionalProperties: false };
const tools = [{ type: "function", name: "work", parameters, strict: true }];

const results = (response) =>
  response.output
    .filter((item) => item.type === "function_call")
    .map((item) => {
      const { step, part } = JSON.parse(item.arguments);
      return { type: "function_call_output", call_id: item.call_id, output: `result ${step}.${part}` };
    });

const text = (response) =>
  response.output
    .filter((item) => item.type === "message")
    .flatMap((item) => item.content.map((part) => part.text))
    .join("");

async function streamed(body) {
  for await (const event of await client.responses.create({ ...body, tools, stream: true })) {
    if (event.type === "response.completed") return event.response;
  }
  throw new Error("the stream had no terminal event");
}

async function loop(ask, link) {
  let response = await ask({ input: `loop ${steps}`, ...link(null) });
  let turns = 1;
  for (let given = results(response); given.length; given = results(response)) {
    response = await ask({ input: given, ...link(response) });
    turns += 1;
  }
  const seen = await ask({ input: "recall", ...link(response) });
  return { turns, text: text(response), seen: JSON.parse(text(seen)) };
}

const previous = (response) => (response ? { previous_response_id: response.id } : {});

async function byConversation(model) {
  const conversation = await client.conversations.create({});
  return loop((body) => streamed({ ...body, model }), () => ({ conversation: conversation.id }));
}

async function overSocket(model) {
  const socket = new ResponsesWS(client);
  const waiting = [];
  const failed = new Promise((_, reject) => socket.on("error", reject));
  socket.on("response.completed", (event) => waiting.shift()(event.response));
  const ask = (body) => {
    const response = new Promise((resolve) => waiting.push(resolve));
    socket.send({ type: "response.create", ...body, model, tools });
    return Promise.race([response, failed]);
  };
  try {
    return await loop(ask, previous);
  } finally {
    socket.close();
  }
}

async function inBackground(model) {
  let response = await client.responses.create({ model, input: "slow 5 20", background: true });
  const first = response.status;
  while (["queued", "in_progress"].includes(response.status)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    response = await client.responses.retrieve(response.id);
  }
  await client.responses.delete(response.id);
  const gone = await client.responses.retrieve(response.id).catch((error) => error.status);
  return { first, status: response.status, text: text(response), gone };
}

const run = {
  previous: (model) => loop((body) => streamed({ ...body, model }), previous),
  conversation: byConversation,
  socket: overSocket,
  background: inBackground,
};
const found = {};
for (const model of models) {
  found[model] = {};
  for (const way of ways.split(",")) found[model][way] = await run[way](model);
}
console.log(JSON.stringify(found));
