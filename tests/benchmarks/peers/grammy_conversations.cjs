// grammY's plugin for conversations, with its own storage in memory. Each message runs the conversation again
// from its first line, so that the cost of one grows with those before it; here there are a few dozen.
const { createServer } = require("node:http");
const { Bot, webhookCallback } = require("grammy");
const { conversations, createConversation } = require("@grammyjs/conversations");

const [port, platform, secret, token] = process.argv.slice(2);
const bot = new Bot(token, {
  client: { apiRoot: platform },
  botInfo: {
    id: 123456, is_bot: true, first_name: "Bot", username: "benchmark_bot",
    can_join_groups: true, can_read_all_group_messages: false, supports_inline_queries: false,
  },
});

async function talk(conversation, ctx) {
  let text = ctx.message.text;
  while (true) {
    await ctx.reply(text);
    ctx = await conversation.waitFor("message:text");
    text = ctx.message.text;
  }
}

bot.use(conversations());
bot.use(createConversation(talk));
bot.on("message:text", (ctx) => ctx.conversation.enter("talk"));
const handle = webhookCallback(bot, "http");
createServer((request, response) => {
  if (request.url === `/${secret}`) return handle(request, response);
  response.writeHead(404).end();
}).listen(Number(port), "127.0.0.1");
