// The page's own words, in English and in Persian. What bots and people write is never in here.

const KEY = "triobot-language";

const ENGLISH = {
  ok: "OK", cancel: "Cancel", add: "Add", open: "Open", send: "Send", share: "Share", more: "More", back: "Back",
  failed: "That didn't work.", details: "Details", clear: "Clear", today: "Today", name: "Name", phone: "Phone number",
  amountIrr: "{amount} rials", amountCoin: "{amount} coin", rials: "Rials", coins: "Coin", amount: "Amount",
  theme: "Light or dark", otherLanguage: "فارسی", address: "Address",
  gate: "Open the address that the terminal shows, or paste it here. A new run has a new one.",
  connecting: "Connecting…", lineLost: "The line to the emulator is cut. Trying again…",

  chats: "Chats", people: "People", groups: "Groups", newPerson: "New person", newGroup: "New group",
  noGroups: "No group yet.", notJoined: "hasn't joined yet", chooseChat: "Choose a chat.", nobody: "Nobody is there.",

  online: "online", typing: "typing…", members: "{count} members", youAre: "You are {name}", toEnd: "To the newest",
  openBeside: "Open another beside", closePane: "Close", leave: "Leave", join: "Join", joinAgain: "Join again", start: "Start",
  saveTranscript: "Save as text", saveTest: "Save as a test", noMessages: "Nothing has been said yet.", older: "Older messages",
  hasJoined: "{name} joined", hasLeft: "{name} left", edited: "edited", messageDeleted: "Message deleted",

  write: "Write a message", attach: "Attach", recordVoice: "Record a voice message", recording: "Recording",
  noMicrophone: "There is no microphone, or this page may not use it.", imageOrVideo: "Picture or video",
  image: "Picture", video: "Video", audio: "Audio", voice: "Voice", file: "File", contact: "Contact", location: "Location",
  sendFile: "Send a file", sendAs: "Send as", caption: "Caption", uploading: "Sending {name}…",
  tooLarge: "At most {size} can be sent from here.", cantRead: "The file can't be read.", download: "Save",
  elsewhere: "is on another server; it is not fetched", play: "Play or pause", position: "Position",
  cantPlay: "This browser can't play it.",

  shareContact: "Share your number?", shareContactWhy: "The bot asks for your phone number.",
  shareLocation: "Share your location?", shareLocationWhy: "The bot will see this place.", here: "Where I am",
  noPosition: "This browser doesn't say where it is.", latitude: "Latitude", longitude: "Longitude", description: "Description",
  deadLink: "The app doesn't open this: {url}", waitsForAnswer: "Waiting for the bot's answer",
  barcode: "Barcode", qrcode: "QR code", readCode: "Read a code", typeCode: "Type what the code says, or choose a picture of it.",
  codeFromPicture: "Picture", noDetector: "This browser can't read codes out of pictures.", noCode: "No code was found.",
  sentTimes: "Sent ({count})",

  wallet: "Wallet", payment: "Payment", pay: "Pay", inWallet: "In the wallet:", letItFail: "Let it fail",
  result: "Result", asItShould: "as it should be", takenAllTheSame: "Take the money all the same", otherAmount: "Take another amount",
  code1000: "balance not enough", code1001: "encoded parameter invalid", code1002: "parameter invalid",
  code1003: "identifier a duplicate", code1004: "wallet error, try again", code1005: "transaction not verified",
  code1006: "error while verifying", topUp: "Top up", invoices: "Invoices", invoice: "Invoice", payments: "Payments",
  noInvoices: "Nothing to pay.", noPayments: "Nothing was paid yet.", letAnHourPass: "Let an hour pass",
  backAt: "Goes back to the wallet, unless the bot verifies it before", moneyBack: "Money came back to the wallet.",
  newInvoice: "There is a new invoice in the wallet.",
  state_open: "open", state_paid: "not verified yet", state_captured: "verified", state_refunded: "gone back", state_expired: "expired",

  inspector: "Requests", filter: "Filter", direction: "Direction", bothWays: "Both ways", fromBot: "From the bot", toBot: "To the bot",
  failedOnes: "Failed", noCalls: "No request yet.", noBody: "no body", answer: "Answer", underWay: "Under way…",
  nobodyAnswered: "Nobody answered.", emptyAnswer: "Nothing in it.", copyCurl: "Copy as curl", copied: "Copied.",
  cantCopy: "The browser doesn't let this page copy.",

  mischief: "Mischief", process: "The bot's process", killNow: "Kill it now", restart: "Restart", killed: "Killed.",
  killHint: "Events wait while it is down; what it was paid, said and asked must still be there when it is back.",
  noProcess: "The bot runs elsewhere: only `triobot dev` has its process in hand.",
  time: "The platform's clock", timePassed: "Time has passed.", ahead: "{minutes} minutes ahead of this machine's clock",
  span_60: "1 minute", span_600: "10 minutes", span_3600: "1 hour", span_86400: "1 day",
  outage: "The platform", refuseFor: "Refuse connections for {seconds} s", refusing: "Nobody answers now.",
  forgetUploads: "Forget all uploads", forgotten: "Forgotten.",
  operationFaults: "What the bot asks for goes wrong", eventFaults: "What is posted to the bot goes wrong",
  next: "Next", howOften: "How often", any: "anything", times: "{count}×", always: "always",
  late: "3 s late", error500: "500", error502: "502", error429: "429", error403: "403", error400: "400",
  answerDropped: "Done, answer dropped", notDone: "Not done, no answer",
  eventTwice: "Posted twice", eventLate: "5 s late", eventBehind: "After the next one", eventLost: "Lost",
  planned: "Still to come", allWell: "All well again", switches: "Where the interface is silent",
  switchesHint: "A bot that is right under each of these is right on the platform.",

  machine: "Bot", startedTimes: "started {count}×", since: "since {at}", eventsWait: "{count} events wait for it", botFailed: "The bot doesn't start.",
  botKilled: "The bot was killed. Events wait for it.", botStopped: "The bot has stopped. Events wait for it.",
  phase_starting: "starting…", phase_running: "running", phase_stopping: "coming to rest…", phase_stopped: "stopped",
  phase_killed: "killed", phase_failed: "failed",
};

const PERSIAN = {
  ok: "باشه", cancel: "لغو", add: "افزودن", open: "باز کردن", send: "ارسال", share: "اشتراک", more: "بیشتر", back: "بازگشت",
  failed: "نشد.", details: "جزئیات", clear: "پاک کردن", today: "امروز", name: "نام", phone: "شماره تلفن",
  amountIrr: "{amount} ریال", amountCoin: "{amount} سکه", rials: "ریال", coins: "سکه", amount: "مبلغ",
  theme: "روشن یا تیره", otherLanguage: "English", address: "نشانی",
  gate: "نشانی‌ای را که در ترمینال آمده باز کنید یا اینجا بچسبانید. هر اجرا نشانی تازه‌ای دارد.",
  connecting: "در حال اتصال…", lineLost: "ارتباط با شبیه‌ساز قطع شد. دوباره تلاش می‌شود…",

  chats: "گفتگوها", people: "آدم‌ها", groups: "گروه‌ها", newPerson: "آدم تازه", newGroup: "گروه تازه",
  noGroups: "هنوز گروهی نیست.", notJoined: "هنوز نپیوسته", chooseChat: "گفتگویی را انتخاب کنید.", nobody: "کسی نیست.",

  online: "برخط", typing: "در حال نوشتن…", members: "{count} عضو", youAre: "شما {name} هستید", toEnd: "به تازه‌ترین",
  openBeside: "یکی دیگر در کنار این", closePane: "بستن", leave: "ترک", join: "پیوستن", joinAgain: "پیوستن دوباره", start: "شروع",
  saveTranscript: "ذخیره به‌صورت متن", saveTest: "ذخیره به‌صورت آزمون", noMessages: "هنوز چیزی گفته نشده.", older: "پیام‌های قدیمی‌تر",
  hasJoined: "{name} پیوست", hasLeft: "{name} رفت", edited: "ویرایش‌شده", messageDeleted: "پیام حذف شد",

  write: "پیامی بنویسید", attach: "پیوست", recordVoice: "ضبط پیام صوتی", recording: "در حال ضبط",
  noMicrophone: "میکروفونی نیست یا این صفحه اجازه ندارد.", imageOrVideo: "عکس یا ویدیو",
  image: "عکس", video: "ویدیو", audio: "موسیقی", voice: "صدا", file: "فایل", contact: "مخاطب", location: "مکان",
  sendFile: "ارسال فایل", sendAs: "ارسال به‌عنوان", caption: "شرح", uploading: "در حال ارسال {name}…",
  tooLarge: "از اینجا حداکثر {size} فرستاده می‌شود.", cantRead: "فایل خوانده نمی‌شود.", download: "ذخیره",
  elsewhere: "روی سرور دیگری است و گرفته نمی‌شود", play: "پخش یا مکث", position: "جایگاه",
  cantPlay: "این مرورگر نمی‌تواند پخش کند.",

  shareContact: "شماره‌تان را می‌فرستید؟", shareContactWhy: "ربات شماره تلفن شما را می‌خواهد.",
  shareLocation: "مکانتان را می‌فرستید؟", shareLocationWhy: "ربات این مکان را می‌بیند.", here: "جایی که هستم",
  noPosition: "این مرورگر مکانش را نمی‌گوید.", latitude: "عرض جغرافیایی", longitude: "طول جغرافیایی", description: "توضیح",
  deadLink: "برنامه این را باز نمی‌کند: {url}", waitsForAnswer: "در انتظار پاسخ ربات",
  barcode: "بارکد", qrcode: "کد QR", readCode: "خواندن کد", typeCode: "آنچه کد می‌گوید را بنویسید یا عکسش را انتخاب کنید.",
  codeFromPicture: "عکس", noDetector: "این مرورگر از عکس کد نمی‌خواند.", noCode: "کدی پیدا نشد.",
  sentTimes: "فرستاده شد ({count})",

  wallet: "کیف پول", payment: "پرداخت", pay: "پرداخت", inWallet: "در کیف پول:", letItFail: "بگذار شکست بخورد",
  result: "نتیجه", asItShould: "همان‌طور که باید", takenAllTheSame: "با این حال پول برداشته شود", otherAmount: "مبلغ دیگری برداشته شود",
  code1000: "موجودی کافی نیست", code1001: "پارامتر رمزشده نامعتبر", code1002: "پارامتر نامعتبر",
  code1003: "شناسه تکراری", code1004: "خطای کیف پول، دوباره", code1005: "تراکنش تأیید نشد",
  code1006: "خطا در تأیید", topUp: "شارژ", invoices: "فاکتورها", invoice: "فاکتور", payments: "پرداخت‌ها",
  noInvoices: "چیزی برای پرداخت نیست.", noPayments: "هنوز چیزی پرداخت نشده.", letAnHourPass: "یک ساعت بگذرد",
  backAt: "اگر ربات پیش از آن تأیید نکند به کیف پول برمی‌گردد", moneyBack: "پول به کیف برگشت.",
  newInvoice: "فاکتور تازه‌ای در کیف پول است.",
  state_open: "باز", state_paid: "تأیید نشده", state_captured: "تأیید شد", state_refunded: "برگشت", state_expired: "منقضی",

  inspector: "درخواست‌ها", filter: "صافی", direction: "جهت", bothWays: "هر دو سو", fromBot: "از ربات", toBot: "به ربات",
  failedOnes: "ناموفق", noCalls: "هنوز درخواستی نیست.", noBody: "بدون متن", answer: "پاسخ", underWay: "در راه…",
  nobodyAnswered: "کسی پاسخ نداد.", emptyAnswer: "چیزی در آن نیست.", copyCurl: "کپی به‌صورت curl", copied: "کپی شد.",
  cantCopy: "مرورگر اجازه کپی نمی‌دهد.",

  mischief: "شیطنت", process: "فرایند ربات", killNow: "همین حالا بکش", restart: "از نو", killed: "کشته شد.",
  killHint: "وقتی پایین است رویدادها منتظر می‌مانند؛ آنچه پرداخت، گفته و پرسیده شده باید پس از بازگشت سر جایش باشد.",
  noProcess: "ربات جای دیگری اجرا می‌شود: تنها `triobot dev` فرایندش را در دست دارد.",
  time: "ساعت سکو", timePassed: "زمان گذشت.", ahead: "{minutes} دقیقه جلوتر از ساعت این دستگاه",
  span_60: "۱ دقیقه", span_600: "۱۰ دقیقه", span_3600: "۱ ساعت", span_86400: "۱ روز",
  outage: "سکو", refuseFor: "{seconds} ثانیه رد اتصال", refusing: "حالا کسی پاسخ نمی‌دهد.",
  forgetUploads: "فراموشی همه فایل‌ها", forgotten: "فراموش شد.",
  operationFaults: "آنچه ربات می‌خواهد خراب شود", eventFaults: "آنچه به ربات می‌رسد خراب شود",
  next: "بعدی", howOften: "چند بار", any: "هرچه", times: "{count}×", always: "همیشه",
  late: "۳ ثانیه دیر", error500: "۵۰۰", error502: "۵۰۲", error429: "۴۲۹", error403: "۴۰۳", error400: "۴۰۰",
  answerDropped: "انجام، بی‌پاسخ", notDone: "نه انجام، نه پاسخ",
  eventTwice: "دو بار", eventLate: "۵ ثانیه دیر", eventBehind: "پس از بعدی", eventLost: "گم شود",
  planned: "در پیش", allWell: "همه چیز خوب", switches: "آنجا که مستند ساکت است",
  switchesHint: "رباتی که با هر کدام از این‌ها درست باشد روی سکو هم درست است.",

  machine: "ربات", startedTimes: "{count}× شروع", since: "از {at}", eventsWait: "{count} رویداد منتظر آن است", botFailed: "ربات شروع نمی‌شود.",
  botKilled: "ربات کشته شد. رویدادها منتظر آن‌اند.", botStopped: "ربات ایستاد. رویدادها منتظر آن‌اند.",
  phase_starting: "در حال شروع…", phase_running: "در حال کار", phase_stopping: "در حال آرام گرفتن…", phase_stopped: "ایستاده",
  phase_killed: "کشته شده", phase_failed: "شکست خورد",
};

const TABLES = { en: ENGLISH, fa: PERSIAN };
let chosen = localStorage.getItem(KEY) ?? (navigator.language.startsWith("fa") ? "fa" : "en");
if (!(chosen in TABLES)) chosen = "en";

export const language = () => chosen;

export function chooseLanguage(name) {
  chosen = name;
  localStorage.setItem(KEY, name);
}

/** The words for a key, with what stands in braces filled in. */
export function t(key, values = {}) {
  const words = TABLES[chosen][key] ?? ENGLISH[key] ?? key;
  // A name may run in the other direction; isolates keep it from turning the words around it.
  return words.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === "string" && /\p{L}/u.test(values[name]) ? `\u2068${values[name]}\u2069` : (values[name] ?? "")));
}
