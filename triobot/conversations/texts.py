"""The runtime's own messages to users, in English and Persian; a bot may use other texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, final

import attrs

from ..base.authors import kind_of
from ..base.frozen import guarded
from ..errors import ConfigError


@final
@guarded
class Texts:
    """The messages that the runtime sends by itself.

    Make an instance with a class method, and change texts with `attrs.evolve`.

    Attributes:
        apology: the conversation failed.
        parked: a conversation can't go on until its code is fixed. Sent when the conversation is parked, and
            again to users who write in the meantime, at most once a minute.
        afresh: answer to a command that starts a conversation while another conversation is parked;
            ``{command}`` is filled in. If the user sends that command again, the parked conversation ends and
            the command's conversation starts.
        expired: answer to a button or form that is over, and to a payment that wasn't made in time.
        want_text, want_number, ...: hint at the kind of answer that the question expects.
        required: a form's field was left empty; ``{label}`` is filled in.
        not_a_number, not_an_option: error in a form's field; ``{label}`` is filled in.
        submit: label of the form's button.
        top_up: the wallet holds too little.
        top_up_button: label of the link to top up the wallet.
        pay_again: the wallet failed; the button still works.
        declined: the payment was finally declined, and the conversation ended because of that.
        handed_over: the payment has arrived, but its aside has failed or an operator handles it. The
            conversation ended because of that.
        pay: label of a payment button.
    """

    apology: str = "Something went wrong here. Please start again."
    parked: str = "I can't go on just now. What you told me is kept."
    afresh: str = "What we had begun can't go on just now. Send {command} again to leave it and start anew."
    expired: str = "This has expired."
    want_text: str = "Please answer with a text message."
    want_number: str = "Please answer with a number."
    want_choice: str = "Please press one of the buttons."
    want_form: str = "Please fill in the form."
    want_payment: str = "Please use the payment button."
    want_image: str = "Please send a picture."
    want_video: str = "Please send a video."
    want_audio: str = "Please send a piece of music."
    want_voice: str = "Please send a voice message."
    want_file: str = "Please send a file."
    want_contact: str = "Please share a contact."
    want_location: str = "Please share a location."
    required: str = "{label}: please fill this in."
    not_a_number: str = "{label}: please enter a whole number."
    not_an_option: str = "{label}: please choose one of the options."
    submit: str = "Send"
    top_up: str = "Your wallet's balance is too low. Top it up and press the button again."
    top_up_button: str = "Top up"
    pay_again: str = "The payment did not go through. Please press the button again."
    declined: str = "The payment was declined, and nothing was taken. You can start again any time."
    handed_over: str = "Your payment has arrived, and is dealt with separately. You need not pay again."
    pay: str = "Pay"

    @classmethod
    def english(cls) -> Self:
        """Return the default texts."""
        return cls()

    @classmethod
    def persian(cls) -> Self:
        """Return texts for Persian-speaking users."""
        return cls(
            apology="مشکلی پیش آمد. لطفاً دوباره شروع کنید.",
            parked="فعلاً نمی‌توانم ادامه دهم. گفته‌های شما نگه داشته شده است.",
            afresh="کار قبلی فعلاً ادامه نمی‌یابد. برای شروع دوباره، بار دیگر {command} را بفرستید.",
            expired="مهلت این گزینه گذشته است.",
            want_text="لطفاً با یک پیام متنی پاسخ دهید.",
            want_number="لطفاً با یک عدد پاسخ دهید.",
            want_choice="لطفاً یکی از دکمه‌ها را بزنید.",
            want_form="لطفاً فرم را پر کنید.",
            want_payment="لطفاً از دکمهٔ پرداخت استفاده کنید.",
            want_image="لطفاً یک عکس بفرستید.",
            want_video="لطفاً یک ویدیو بفرستید.",
            want_audio="لطفاً یک فایل صوتی بفرستید.",
            want_voice="لطفاً یک پیام صوتی بفرستید.",
            want_file="لطفاً یک فایل بفرستید.",
            want_contact="لطفاً یک مخاطب بفرستید.",
            want_location="لطفاً موقعیت مکانی بفرستید.",
            required="{label}: لطفاً این بخش را پر کنید.",
            not_a_number="{label}: لطفاً یک عدد صحیح بنویسید.",
            not_an_option="{label}: لطفاً یکی از گزینه‌ها را انتخاب کنید.",
            submit="ارسال",
            top_up="موجودی کیف پول کافی نیست. آن را شارژ کنید و دوباره دکمه را بزنید.",
            top_up_button="شارژ کیف پول",
            pay_again="پرداخت انجام نشد. لطفاً دوباره دکمه را بزنید.",
            declined="پرداخت پذیرفته نشد و مبلغی کم نشد. هر زمان خواستید دوباره شروع کنید.",
            handed_over="پرداخت شما رسیده است و جداگانه به آن رسیدگی می‌شود. نیازی به پرداخت دوباره نیست.",
            pay="پرداخت",
        )

    @classmethod
    def translated(cls, translate: Callable[[str], str]) -> Self:
        """Return the English texts, translated with a catalogue.

        The package has a template with all texts, ``triobot/locale/triobot.pot``. Texts that the catalogue
        lacks stay English.

        Args:
            translate: a function such as the `gettext` of a ``gettext.GNUTranslations``; it is called here,
                once for each text.

        Raises:
            ConfigError: a translation is no text, or has a placeholder in braces that nothing fills in.

        Examples:
            >>> from gettext import translation
            >>> persian = translation("my_bot", "locale", ["fa"])
            >>> bot = Bot(texts=Texts.translated(persian.gettext))
        """
        texts = attrs.asdict(cls.english())
        return cls(**{name: _translated(name, text, translate) for name, text in texts.items()})


def _translated(name: str, text: str, translate: Callable[[str], str]) -> str:
    translated, fills = translate(text), [one for one in ("label", "command") if f"{{{one}}}" in text]
    try:
        filled_in = translated.format(**dict.fromkeys(fills, name))
    except (AttributeError, TypeError, ValueError, LookupError) as error:
        wrong = f"can't be filled in: {kind_of(error)}"
        raise ConfigError(f"Texts.translated(): the translation of {name} {wrong}") from None
    if not filled_in:
        raise ConfigError(f"Texts.translated(): the translation of {name} is empty")
    return translated
