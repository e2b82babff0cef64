// Node 18 or newer: TOKEN=... BASE_URL=... SECRET=... PORT=3000 node echo.mjs
import { createServer } from "node:http";
const { TOKEN, BASE_URL, SECRET, PORT } = process.env;

async function call(operation, fields) {
  const request = { method: "POST", headers: { token: TOKEN }, body: new URLSearchParams(fields) };
  const answer = await fetch(`${BASE_URL}/${operation}`, request);
  if (!answer.ok) throw new Error(`${operation}: ${answer.status} ${await answer.text()}`);
}

async function handle({ chat_id, type, data }) {
  if (type === "join") {
    const inline_keyboard = JSON.stringify([[{ text: "Press me", cb_data: "pressed" }]]);
    await call("sendMessage", { chat_id, type: "text", data: "Welcome.", inline_keyboard });
  } else if (type === "text") {
    await call("sendMessage", { chat_id, type: "text", data: `You said: ${data}` });
  } else if (type === "triggerButton") {
    const press = JSON.parse(data);
    await call("answerCallback", { chat_id, callback_id: press.callback_id, text: "Thanks.", show_alert: false });
    await call("editMessage", { chat_id, message_id: press.message_id, data: `It is ${press.data}.` });
  }
}

let last = Promise.resolve(); // one after the other, in the order in which they came
createServer(async (request, response) => {
  if (request.method !== "POST" || request.url !== `/${SECRET}`) return response.writeHead(404).end();
  const body = Buffer.concat(await request.toArray()).toString();
  response.end(); // at once: what handles it may take longer than the platform waits
  last = last.then(() => handle(Object.fromEntries(new URLSearchParams(body)))).catch(console.error);
}).listen(Number(PORT), "127.0.0.1");
