// The words of a reload that is held; a part of words.js.

export const ENGLISH = {
  held: "The reload is held",
  heldHead: "The reload is held: the new code does not fit the open chats below ({count}). The bot goes on with the code that it has.",
  heldChat: "Held for {name}",
  heldWas: "was line {line}",
  heldWasNone: "was another line",
  heldNow: "is line {line}",
  heldNowNone: "is over there",
  heldAnswers: "Give the same answers",
  heldWait: "Wait until it ends",
  heldWaits: "Waits until it ends",
  heldEnd: "End it",
  heldEnds: "Ends…",
  heldEndWhy: "The conversation of {name} ends at once; the next message begins another one, with the new code.",
  heldEndYes: "End it now",
  heldRestart: "Take the code all the same",
  heldRestartWhy: "The bot is restarted, and each of these chats is parked when something comes for it",
};

export const PERSIAN = {
  held: "بارگذاری دوباره نگه داشته شده",
  heldHead: "بارگذاری دوباره نگه داشته شده: کد تازه با گفتگوهای باز زیر ({count}) جور نیست. ربات با کدی که دارد ادامه می‌دهد.",
  heldChat: "نگه داشته برای {name}",
  heldWas: "سطر {line} بود",
  heldWasNone: "سطر دیگری بود",
  heldNow: "سطر {line} است",
  heldNowNone: "آنجا به پایان رسیده",
  heldAnswers: "همان جواب‌ها را بده",
  heldWait: "تا پایانش صبر کن",
  heldWaits: "تا پایانش صبر می‌کند",
  heldEnd: "پایانش بده",
  heldEnds: "پایان می‌یابد…",
  heldEndWhy: "گفتگوی {name} همین حالا پایان می‌یابد؛ پیام بعدی گفتگوی دیگری را با کد تازه آغاز می‌کند.",
  heldEndYes: "همین حالا پایانش بده",
  heldRestart: "با این حال کد را بگیر",
  heldRestartWhy: "ربات از نو راه می‌افتد، و هر یک از این گفتگوها همین که چیزی برایش برسد کنار گذاشته می‌شود",
};
