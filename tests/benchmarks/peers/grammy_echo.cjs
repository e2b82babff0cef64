// grammY on Node's own http server. Its webhook answers 200 when the handler has finished.
const { createServer } = require("node:http");
const { Bot, webhookCallback } = require("grammy");

const [port, platform, secret, token] = process.argv.slice(2);
const bot = new Bot(token, {
  client: { apiRoot: platform },
  botInfo: {
    id: 123456, is_bot: true, first_name: "Bot", username: "benchmark_bot",
    can_join_groups: true, can_read_all_group_messages: false, supports_inline_queries: false,
  },
});
bot.on("message:text", (ctx) => ctx.reply(ctx.message.text));
const handle = webhookCallback(bot, "http");
createServer((request, response) => {
  if (request.url === `/${secret}`) return handle(request, response);
  response.writeHead(404).end();
}).listen(Number(port), "127.0.0.1");
