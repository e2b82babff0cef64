"""The examples that wait: for other programs, for many people, for answers that come late."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from triobot import File, Location, provide
from triobot.testing import drive

Example = Callable[[str], ModuleType]


async def test_a_taxi_tells_where_it_is(example: Example, autojump_clock: object) -> None:
    """The fleet posts each update twice; the person sees each once."""
    taxi = example("taxi")
    async with drive(taxi.bot) as world:
        sara = world.user("Sara", wallet=100_000)
        await sara.joins()
        await sara.sees("Where are you?")
        await sara.shares_location()
        await sara.sees("Where to?")
        await sara.shares_location()
        await sara.sees("80,000 rials")
        await sara.presses("Pay now")
        await sara.says("Hurry!")
        await sara.sees("Looking for a driver...")
        for _ in range(2):
            await taxi.tell(sara.chat_id, taxi.Driver("Reza", "12-345"), "driver-1")
        await sara.sees("Reza is coming, 12-345.")
        await sara.sees("Taxi")
        await sara.pays()
        await sara.sees("The driver is on the way.")
        await taxi.tell(sara.chat_id, taxi.Moved(4), "moved-1")
        await sara.sees("4 min away")
        await taxi.tell(sara.chat_id, taxi.Arrived(), "arrived-1")
        await sara.sees("The car is here. How was it?")
        await sara.presses("★★★★★")
        await sara.sees("Thank you!")

        assert (await sara.wallet())["IRR"] == 20_000
        assert len(taxi.bot.use(taxi.fleet).booked) == 1


@pytest.mark.parametrize("ending", ["a word", "time", "no car"])
async def test_a_taxi_that_falls_through_is_given_back(
    example: Example, autojump_clock: object, ending: str
) -> None:
    taxi = example("taxi")
    fleet = taxi.Fleet(cars=0 if ending == "no car" else 1)
    async with drive(taxi.bot, provide(taxi.fleet, fleet)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Where are you?")
        await sara.shares_location()
        await sara.sees("Where to?")
        await sara.shares_location()
        await sara.sees("80,000 rials")
        await sara.presses("Cash")
        if ending == "a word":
            await sara.says("/cancel")
        elif ending == "time":
            await world.waits(minutes=5)
        await sara.sees("Cancelled, or no car was found.")

        assert fleet.booked == {}


async def test_a_declined_ride_gives_the_car_back(example: Example, autojump_clock: object) -> None:
    taxi = example("taxi")
    fleet = taxi.Fleet()
    async with drive(taxi.bot, provide(taxi.fleet, fleet)) as world:
        sara = world.user("Sara", wallet=100_000)
        await sara.joins()
        await sara.sees("Where are you?")
        await sara.shares_location()
        await sara.sees("Where to?")
        await sara.shares_location()
        await sara.sees("80,000 rials")
        await sara.presses("Pay now")
        await sara.says("Hurry!")
        await sara.sees("Looking for a driver...")
        await taxi.tell(sara.chat_id, taxi.Driver("Reza", "12-345"), "driver-1")
        await sara.sees("Taxi")
        await sara.pays(code=1002)
        await sara.sees("Cancelled, or no car was found.")
        world.alarms.clear()

        assert fleet.booked == {}


async def test_a_survey_branches_and_goes_back(example: Example, autojump_clock: object) -> None:
    """Back leads over the branch that a new answer took away, and the owner gets a table."""
    survey = example("survey")
    async with drive(survey.bot) as world:
        owner, sara = world.user("Owner"), world.user("Sara")
        assert owner.id == survey.OWNER
        await sara.joins()
        await sara.sees("Three questions at most.")
        await sara.sees("How was it?")
        await sara.presses("★★")
        await sara.sees("What went wrong?")
        await sara.presses("« Back")
        await sara.sees("How was it?")
        await sara.presses("★")
        await sara.sees("What went wrong?")
        await sara.says("Too long")
        await sara.sees("Where do you live?")
        await sara.says("Shiraz")
        await sara.sees("Thank you!")
        await sara.says("/export")
        await sara.sees("Three questions at most.")
        await owner.joins()
        await owner.says("/export")
        table = await owner.opens(await owner.sees(File))

        assert table.decode() == "stars,complaint,city\r\n1,Too long,Shiraz\r\n"


async def test_a_survey_waits_for_ever(example: Example, autojump_clock: object) -> None:
    async with drive(example("survey").bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        for _ in range(3):
            await sara.sees("How was it?")
            await world.waits(days=1)
            await sara.sees("Still there? We go on where you stopped.")
        await sara.sees("How was it?")
        await sara.presses("★★★")
        await sara.sees("Where do you live?")


async def test_a_group_answers_together(example: Example, autojump_clock: object) -> None:
    """Everybody once, the first one for most; and chatter is no answer."""
    async with drive(example("group_quiz").bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        group = await world.group(ali, sara)
        ali, sara = ali.at(group), sara.at(group)
        await ali.says("/quiz")
        first = await sara.sees("Which river is the longest?")
        assert first.buttons == (("Nile", "Karun", "Danube"),)
        await sara.presses("Nile")
        await sara.sees_answer("Nile it is.")
        await sara.presses("Karun")
        await sara.sees_answer("Once is enough.")
        await ali.says("Wait, I think...")
        await ali.presses("Nile")
        await ali.sees_answer("Nile it is.")
        await world.waits(seconds=20)
        await ali.sees("Which river is the longest? Nile!")
        await ali.sees("How many sides has a cube?")
        await ali.presses("Eight")
        await world.waits(seconds=20)
        await ali.sees("How many sides has a cube? Six!")
        await ali.sees("Sara: 3\nAli: 2")
        await ali.says("/stop")
        await ali.sees("There is no quiz to stop.")


async def test_a_bot_speaks_the_language_that_was_chosen(example: Example, autojump_clock: object) -> None:
    """Its own words and the runtime's, also about a button that is long over."""
    languages = example("languages")
    async with drive(languages.bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("What can I do for you?")
        await sara.presses("Book a table")
        await sara.sees("For how many?")
        await sara.says("nine")
        await sara.sees("Please answer with a number.")
        await sara.presses("فارسی")
        await sara.sees("چه کاری می‌توانم بکنم؟")
        await sara.presses("رزرو میز")
        await sara.sees("برای چند نفر؟")
        await sara.shares_location()
        await sara.sees("لطفاً با یک پیام متنی پاسخ دهید.")
        await sara.says("۹")
        await sara.sees("حداکثر برای ۸ نفر جا داریم.")
        await sara.says("۴")
        await sara.sees("چه کسی می‌آید؟")
        await sara.submits({"name": "سارا", "children": "۲"})
        await sara.sees("میز ۴ نفره به نام سارا. به امید دیدار!")


async def test_a_desk_has_one_operator_for_each_question(example: Example, autojump_clock: object) -> None:
    """The first one who takes it; pictures pass, too; and either side may end the talk."""
    async with drive(example("desk").bot) as world:
        reza, mina = world.user("Reza"), world.user("Mina")
        for operator in (reza, mina):
            await operator.joins()
            await operator.says("/on")
            await operator.sees("You are on duty.")
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("How can we help?")
        await sara.says("My order is late.")
        for operator in (reza, mina):
            await operator.sees("My order is late.")
        await sara.says("Hello?")
        await sara.sees("Somebody will be here soon.")
        await reza.presses("Take", times=2)
        await sara.sees("Here we are. /end ends the talk.")
        await reza.sees("It is yours. /end ends the talk.")
        await mina.presses("Take")
        await mina.sees("Somebody else was faster.")
        await reza.says("Which order?")
        await sara.sees("Which order?")
        await sara.says(Location("35.7", "51.3", "here"))
        await reza.sees(Location)
        await sara.says("/end")
        await sara.sees("The talk is over.")
        await reza.sees("The talk is over.")
        await mina.presses("Take")
        await mina.sees("This one needs no help any more.")


async def test_an_operator_s_next_question_waits_for_the_talk_to_end(
    example: Example, autojump_clock: object
) -> None:
    desk = example("desk")
    async with drive(desk.bot) as world:
        reza, sara, nima = world.user("Reza"), world.user("Sara"), world.user("Nima")
        desk.STAFF = {reza.id}
        await reza.joins()
        await reza.says("/on")
        await reza.sees("You are on duty.")
        for customer in (sara, nima):
            await customer.joins()
            await customer.says(f"{customer.name} has a question")
            await reza.sees(f"{customer.name} has a question")
            await reza.presses("Take")
            await customer.sees("Here we are. /end ends the talk.")
        await reza.says("One at a time, please.")
        await sara.sees("One at a time, please.")
        await nima.says("Is anybody here?")
        await reza.sees("Is anybody here?")
        await reza.says("/end")
        await reza.sees("It is yours. /end ends the talk.")
        await reza.says("Now you.")
        await nima.sees("Now you.")


async def test_a_desk_goes_on_when_somebody_leaves(example: Example, autojump_clock: object) -> None:
    """An operator who is not there is not asked, and one who talks hears that the customer has gone."""
    async with drive(example("desk").bot) as world:
        reza, mina = world.user("Reza"), world.user("Mina")
        for operator in (reza, mina):
            await operator.joins()
            await operator.says("/on")
            await operator.sees("You are on duty.")
        await reza.leaves()
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("My order is late.")
        await mina.sees("My order is late.")
        await mina.presses("Take")
        await mina.sees("It is yours. /end ends the talk.")
        await sara.leaves()
        await mina.sees("The talk is over.")


async def test_a_subscription_goes_on_while_it_is_paid(example: Example, autojump_clock: object) -> None:
    async with drive(example("subscription").bot) as world:
        sara = world.user("Sara", wallet=200_000)
        await sara.joins()
        await sara.sees("A month of news")
        await sara.pays()
        await sara.sees("Welcome!")
        await sara.says("What now?")
        await sara.sees("You are a member. /stop ends that.")
        await world.waits(days=27)
        await sara.sees("Your month ends in three days. Another one?")
        await sara.presses("Yes", times=2)
        await sara.sees("A month of news")
        await sara.pays()
        await sara.sees("Thank you!")
        await world.waits(days=30)
        await sara.sees("Your month ends in three days. Another one?")
        await world.waits(days=2)
        await sara.sees_nothing(within=60)
        await world.waits(days=1)
        await sara.sees("Your subscription is over.")
        await sara.sees_buttons()

        assert (await sara.wallet())["IRR"] == 20_000


async def test_a_month_that_is_declined_is_the_last(example: Example, autojump_clock: object) -> None:
    """Nobody stays a member because their payment failed."""
    async with drive(example("subscription").bot) as world:
        sara = world.user("Sara", wallet=200_000)
        await sara.joins()
        await sara.sees("A month of news")
        await sara.pays()
        await sara.sees("Welcome!")
        await world.waits(days=27)
        await sara.sees("Your month ends in three days. Another one?")
        await sara.presses("Yes")
        await sara.sees("A month of news")
        await sara.pays(code=1001)
        await sara.sees("A pity.")
        await world.waits(days=3)
        await sara.sees("Your subscription is over.")
        world.alarms.clear()


async def test_a_subscription_can_be_stopped(example: Example, autojump_clock: object) -> None:
    async with drive(example("subscription").bot) as world:
        sara = world.user("Sara", wallet=200_000)
        await sara.joins()
        await sara.sees("A month of news")
        await sara.presses("Not now")
        await sara.says("Well, then.")
        await sara.sees("A month of news")
        await sara.pays()
        await sara.sees("Welcome!")
        await sara.says("/stop")
        await sara.sees("You won't hear from us any more.")
        await world.waits(days=40)
        await sara.sees_nothing(within=60)


async def test_a_late_parcel_is_searched_for(example: Example, autojump_clock: object) -> None:
    """Days later, however often the warehouse posts and the customer clicks."""
    site = example("existing_app")
    orders = site.Orders()
    async with drive(site.bot, provide(site.orders, orders), app=site.app) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("The number of your order?")
        await sara.says("7")
        await sara.sees("You will hear of order 7 here.")
        for _ in range(2):
            await site.app.test_client().post("/orders/7/shipped")
        await sara.sees("Order 7 is on its way.")
        await world.waits(days=3)
        await sara.sees_buttons("Yes", "No")
        await sara.presses("No", times=2)
        await sara.sees("We are looking for it.")

        assert orders.lost == [7]
