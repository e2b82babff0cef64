"""What the emulated platform answers to a bot's operations, and what people see of them."""

from __future__ import annotations

import random

import pytest

from triobot.emulator.acts import Acting
from triobot.emulator.chats import Deleted, Edited, Pick, PressAnswered, Shown
from triobot.emulator.faults import Switches
from triobot.emulator.performing import Refusal, perform
from triobot.emulator.world import ImpossibleActError, User, World
from triobot.wire.content import Contact, Descriptor, Image, Location
from triobot.wire.events import Join, Leave, Message, Press, Submission
from triobot.wire.forms import Checkbox, Form, Inbuilt, Radio, Submit, TextField
from triobot.wire.ids import CallbackId, GroupName, MessageId, PhoneNumber
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, LinkButton, ReplyKeyboard
from triobot.wire.operations import (
    AnswerCallback,
    DeleteMessage,
    EditMessage,
    SendAction,
    SendMessage,
    Upload,
)
from triobot.wire.results import Sent
from triobot.wire.undocumented import Answer, GetGameData, PutGameData

NOW = 1_700_000_000_000
YES = CallbackButton("Yes", "y")
KEYBOARD = InlineKeyboard(((YES, LinkButton("Site", "https://example.org/")),))


def world_with(user: str = "Ali", **switches: object) -> tuple[World, User]:
    world = World(chance=random.Random(1), switches=Switches(**switches))  # type: ignore[arg-type]
    ali = world.add_user(user, irr=1_000)
    Acting(world, ali, NOW).join()
    return world, ali


def sent(world: World, operation: SendMessage, now: int = NOW) -> Sent:
    answer, _ = perform(world, operation, now)
    assert isinstance(answer, Sent)
    return answer


def test_a_join_carries_the_chat_and_a_different_id_for_the_person() -> None:
    world = World(chance=random.Random(1))
    ali = world.add_user("Ali")

    assert Acting(world, ali, NOW).join() == (Join(ali.chat_id, ali.sender()),)
    assert int(ali.chat_id) != int(ali.id)


def test_senders_can_be_left_out() -> None:
    world, ali = world_with(senders=False)

    assert Acting(world, ali, NOW).say("hi") == (Message(ali.chat_id, "hi", None),)


def test_a_message_is_shown_and_gets_an_id() -> None:
    world, ali = world_with()

    answer, changes = perform(world, SendMessage(ali.chat_id, "hello"), NOW)

    assert isinstance(answer, Sent)
    [change] = changes
    assert isinstance(change.what, Shown)
    assert (change.what.entry.id, change.what.entry.content) == (answer.id, "hello")


def test_a_member_is_reached_by_phone_number() -> None:
    world, ali = world_with()

    answer = sent(world, SendMessage(ali.phone, "hello"))

    assert answer.chat_id == ali.phone
    assert world.chat(ali.chat_id).entries[answer.id].content == "hello"


def test_who_is_not_there_can_not_be_written_to() -> None:
    world, ali = world_with()
    nobody = SendMessage(99, "hello")
    Acting(world, ali, NOW).leave()

    for operation in (nobody, SendMessage(ali.chat_id, "x"), SendMessage(PhoneNumber("+98999999999"), "x")):
        assert perform(world, operation, NOW)[0] == Refusal(403, "chat_id is not valid")
    world.switches = Switches(unknown_chat_status=400)
    assert perform(world, nobody, NOW)[0] == Refusal(400, "chat_id is not valid")


def test_a_group_is_written_to_by_id_and_by_both_spellings_of_its_name() -> None:
    world, ali = world_with()
    group = world.add_group("team")
    [event] = Acting(world, ali, NOW, group.id).join()

    assert event == Join(group.id, ali.sender())
    for name in (group.id, GroupName("@team"), GroupName("team@")):
        sent(world, SendMessage(name, "hello"))
    assert len(group.entries) == 3
    assert Acting(world, ali, NOW, group.id).say("hi") == (Message(group.id, "hi", ali.sender()),)
    assert Acting(world, ali, NOW, group.id).leave() == (Leave(group.id, ali.sender()),)
    with pytest.raises(ImpossibleActError, match="not a member"):
        Acting(world, ali, NOW, group.id).say("hi")


def test_members_press_each_others_buttons_in_a_group() -> None:
    world, ali = world_with()
    sara = world.add_user("Sara")
    group = world.add_group("team")
    for user in (ali, sara):
        Acting(world, user, NOW, group.id).join()
    message = sent(world, SendMessage(group.id, "vote", inline_keyboard=KEYBOARD))

    presses = [Acting(world, user, NOW, group.id).press(message.id, YES)[0] for user in (ali, sara)]

    assert [press.sender for press in presses] == [ali.sender(), sara.sender()]
    assert all(press.chat_id == group.id for press in presses)


def test_nobody_enters_somebody_elses_private_chat() -> None:
    world, ali = world_with()
    sara = world.add_user("Sara")

    with pytest.raises(ImpossibleActError):
        Acting(world, sara, NOW, ali.chat_id).join()


def test_an_edit_replaces_text_and_drops_the_keyboard() -> None:
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "one", inline_keyboard=KEYBOARD))

    answer, changes = perform(world, EditMessage(ali.chat_id, message.id, "two"), NOW + 5)

    assert answer is None
    [change] = changes
    assert isinstance(change.what, Edited) and change.what.anew
    entry = world.chat(ali.chat_id).entries[message.id]
    assert (entry.content, entry.inline_keyboard, entry.edited_at) == ("two", None, NOW + 5)
    with pytest.raises(ImpossibleActError, match="not there any more"):
        Acting(world, ali, NOW).press(message.id, YES)


def test_an_edit_can_keep_the_keyboard_by_switch() -> None:
    world, ali = world_with(edit_drops_keyboard=False)
    message = sent(world, SendMessage(ali.chat_id, "one", inline_keyboard=KEYBOARD))

    perform(world, EditMessage(ali.chat_id, message.id, "two"), NOW)

    assert world.chat(ali.chat_id).entries[message.id].inline_keyboard == KEYBOARD


def test_an_edit_of_the_keyboard_alone_is_not_anew_and_is_refused_by_switch() -> None:
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "one"))
    edit = EditMessage(ali.chat_id, message.id, None, KEYBOARD)

    [change] = perform(world, edit, NOW)[1]
    assert isinstance(change.what, Edited) and not change.what.anew
    world.switches = Switches(edit_needs_data=True)
    assert perform(world, edit, NOW)[0] == Refusal(400, "data is not valid")


def test_only_the_bots_own_messages_are_edited_and_deleted() -> None:
    world, ali = world_with()
    Acting(world, ali, NOW).say("mine")
    [entry] = world.chat(ali.chat_id).entries.values()

    for message_id in (entry.id, MessageId(999)):
        assert perform(world, EditMessage(ali.chat_id, message_id, "x"), NOW)[0] == Refusal(
            400, "data is not valid"
        )
    assert perform(world, DeleteMessage(ali.chat_id, entry.id), NOW)[0] == Refusal(400, "data is not valid")


def test_deleting_what_is_gone_is_answered_200() -> None:
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "one", inline_keyboard=KEYBOARD))
    delete = DeleteMessage(ali.chat_id, message.id)

    answer, changes = perform(world, delete, NOW)
    assert answer is None
    assert [change.what for change in changes] == [Deleted(ali.chat_id, message.id)]
    assert perform(world, delete, NOW) == (None, [])
    assert perform(world, DeleteMessage(ali.chat_id, MessageId(77)), NOW) == (None, [])
    assert world.chat(ali.chat_id).button("Yes") is None
    assert perform(world, EditMessage(ali.chat_id, message.id, "x"), NOW)[0] == Refusal(
        400, "data is not valid"
    )


def test_typing_shows_for_a_while_and_ends_with_a_message() -> None:
    world, ali = world_with()
    chat = world.chat(ali.chat_id)

    perform(world, SendAction(ali.chat_id), NOW)
    assert chat.is_typing(NOW + 5_999)
    assert not chat.is_typing(NOW + 6_000)
    sent(world, SendMessage(ali.chat_id, "done"))
    assert not chat.is_typing(NOW)


def test_a_press_waits_for_its_answer() -> None:
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "sure?", inline_keyboard=KEYBOARD))

    [press] = Acting(world, ali, NOW).press(message.id, YES)

    assert isinstance(press, Press)
    assert (press.value, press.message_id) == ("y", message.id)
    assert len(press.callback_id) == 16 and not press.callback_id.isdigit()
    pressed = world.chat(ali.chat_id).pressed[press.callback_id]
    assert pressed.reply is None
    answer = AnswerCallback(ali.chat_id, press.callback_id, "noted", show_alert=True)
    [change] = perform(world, answer, NOW)[1]
    assert isinstance(change.what, PressAnswered)
    assert (change.what.reply.text, change.what.reply.alert) == ("noted", True)
    assert pressed.reply == change.what.reply
    stranger = AnswerCallback(ali.chat_id, CallbackId("N7YcI5rAlX2sEFmh"), "x")
    assert perform(world, stranger, NOW)[0] == Refusal(400, "data is not valid")


def test_a_link_is_not_pressed() -> None:
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "sure?", inline_keyboard=KEYBOARD))

    with pytest.raises(ImpossibleActError):
        Acting(world, ali, NOW).press(message.id, KEYBOARD.rows[0][1])


def test_keys_arrive_as_text_contact_or_location() -> None:
    world, ali = world_with()
    rows = ((Key("s", "Small"), Key("$contact", "My number")), (Key("$location", "My place"),))
    sent(world, SendMessage(ali.chat_id, "?", reply_keyboard=ReplyKeyboard(rows)))
    chat = world.chat(ali.chat_id)

    def content(label: str) -> object:
        key = chat.key(Pick(label))
        assert key is not None
        [event] = Acting(world, ali, NOW).tap(key)
        assert isinstance(event, Message)
        return event.content

    assert content("Small") == "s"
    assert next(chat.in_sight()).content == "Small"
    assert content("My number") == Contact(ali.phone, "Ali")
    assert isinstance(content("My place"), Location)


def test_a_keyboard_for_once_goes_and_an_empty_one_removes() -> None:
    world, ali = world_with()
    chat = world.chat(ali.chat_id)
    key = Key("s", "Small")
    sent(world, SendMessage(ali.chat_id, "?", reply_keyboard=ReplyKeyboard(((key,),), once=True)))
    Acting(world, ali, NOW).tap(key)
    assert chat.reply_keyboard is None
    with pytest.raises(ImpossibleActError):
        Acting(world, ali, NOW).tap(key)

    for removes in (False, True):
        world.switches = Switches(empty_keyboard_removes=removes)
        sent(world, SendMessage(ali.chat_id, "?", reply_keyboard=ReplyKeyboard(((key,),))))
        sent(world, SendMessage(ali.chat_id, "bye", reply_keyboard=ReplyKeyboard(())))
        assert (chat.reply_keyboard is None) is removes


FORM = Form(
    (
        TextField("name", "Name", "nobody"),
        Radio("married", "Married?", (("y", "Yes"), ("n", "No"))),
        Checkbox("agree", "I agree"),
        Inbuilt("code", "Code", "qrcode"),
        Submit("Send"),
    )
)


def test_a_form_is_sent_in_alphabetical_order_and_more_than_once() -> None:
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "Please", form=FORM))

    [first] = Acting(world, ali, NOW).submit({"married": "y", "agree": "true"})
    [second] = Acting(world, ali, NOW).submit({"name": "Ali", "agree": ""})

    assert isinstance(first, Submission) and isinstance(second, Submission)
    assert first.values == (("agree", "true"), ("code", ""), ("married", "y"), ("name", "nobody"))
    assert second.values == (("code", ""), ("name", "Ali"))
    assert first.message_id == message.id
    assert first.callback_id != second.callback_id
    assert world.chat(ali.chat_id).entries[message.id].submitted == 2


def test_a_form_takes_only_what_it_offers() -> None:
    world, ali = world_with()
    with pytest.raises(ImpossibleActError, match="no form"):
        Acting(world, ali, NOW).submit({})
    sent(world, SendMessage(ali.chat_id, "Please", form=FORM))

    with pytest.raises(ImpossibleActError, match="option"):
        Acting(world, ali, NOW).submit({"married": "maybe"})
    with pytest.raises(ImpossibleActError, match="no field 'age'"):
        Acting(world, ali, NOW).submit({"age": "3"})


@pytest.mark.parametrize("value", ["false", "0", "off", "no", "on", "yes", "True", " "])
def test_a_box_is_ticked_with_true_alone(value: str) -> None:
    """Words for "no" ticked a box once, so that a test passed the wrong way round."""
    world, ali = world_with()
    message = sent(world, SendMessage(ali.chat_id, "Please", form=FORM))

    with pytest.raises(ImpossibleActError, match="'agree' is ticked with 'true'"):
        Acting(world, ali, NOW).submit({"agree": value})

    assert not world.chat(ali.chat_id).entries[message.id].submitted


def test_uploads_are_described_and_can_be_forgotten() -> None:
    world, ali = world_with()
    picture = Image.from_bytes(b"12345", "a b.png")
    assert perform(world, SendMessage(ali.chat_id, picture), NOW)[0] == Refusal(400, "data is not valid")

    descriptor, _ = perform(world, Upload.of(picture), NOW)

    assert isinstance(descriptor, Descriptor)
    image = Image(descriptor, "look")
    assert (image.filename, image.filesize) == ("a b.png", 5)
    assert set(image.screenshots) == {"64", "128", "256", "512"}
    sent(world, SendMessage(ali.chat_id, image))
    world.uploads.forget()
    assert perform(world, SendMessage(ali.chat_id, image), NOW)[0] == Refusal(400, "data is not valid")
    elsewhere = Image(Descriptor.from_object({"path": "https://example.org/a.png"}))
    sent(world, SendMessage(ali.chat_id, elsewhere))


def test_operations_outside_the_interface_can_be_switched_off() -> None:
    world, ali = world_with()
    perform(world, PutGameData(ali.chat_id, "setting", "blue"), NOW)

    assert perform(world, GetGameData(ali.chat_id, "setting"), NOW)[0] == Answer({"data": "blue"})
    world.switches = Switches(undocumented=False)
    assert perform(world, GetGameData(ali.chat_id, "setting"), NOW)[0] == Refusal(404, "not found")


def test_the_log_tells_what_is_behind_a_number() -> None:
    world, ali = world_with()
    before = world.seq
    sent(world, SendMessage(ali.chat_id, "one"))
    sent(world, SendMessage(ali.chat_id, "two"))

    assert [change.seq for change in world.changes(before)] == [before + 1, before + 2]
    assert world.changes(world.seq) == []


def test_names_and_numbers_are_taken_once() -> None:
    world, _ = world_with()
    world.add_group("team")

    with pytest.raises(ImpossibleActError):
        world.add_user("Ali")
    with pytest.raises(ImpossibleActError):
        world.add_group("@team")
