"""Questions about signs; writers as in chart_talk."""

from .phrases import NUMBERS, PEOPLE, PLACES, a, listed, pick
from .pictures import part_of_key


def read(sign, style, rng):
    upper, lower = sign.lines
    if style == 0:
        question = pick(rng, ["What does the sign say?", "What is written on the sign?"])
        return question, (
            f"The sign says {upper} in the top line and {lower} in the line below it. "
            f"Under the text there is an arrow that points {sign.arrow}, and the sign is {sign.colour}."
        )
    if style == 1:
        question = pick(rng, ["Read the sign to me.", "Please read the text of this sign."])
        return question, (
            f"It is {a(sign.colour)} sign with text on it. The first line reads {upper} and the second "
            f"line reads {lower}. At the end of the sign there is an arrow, and the arrow points {sign.arrow}."
        )
    question = pick(rng, ["Copy the text of the sign as a list.", "Make a list of what is on the sign."])
    return question, (
        f"Here is the list for the sign:\nfirst line: {upper}\nsecond line: {lower}\narrow: {sign.arrow}\n"
        f"colour: {sign.colour}\nSo the word is {sign.word} and the number is {sign.number}."
    )


def describe(sign, style, rng):
    word, number = ("upper", "lower") if sign.word_first else ("lower", "upper")
    if style == 0:
        question = pick(rng, ["Describe the sign.", "Describe the picture.", "Please describe this sign."])
        return question, (
            f"This is a picture of {a(sign.colour)} sign. In the {word} line of the sign is the word {sign.word}, "
            f"and in the {number} line is the number {sign.number}. Below them is an arrow that points {sign.arrow}."
        )
    if style == 1:
        question = pick(rng, ["What can you see on the sign?", "What is shown by this sign?"])
        return question, (
            f"You can see {a(sign.colour)} sign with a word, a number and an arrow. The word is {sign.word} and stands "
            f"in the {word} line. The number is {sign.number} and stands in the {number} line. "
            f"The arrow points {sign.arrow}."
        )
    question = pick(rng, ["Explain the sign to a friend on the phone.", "How would you explain the sign?"])
    return question, (
        f"Think of {a(sign.colour)} sign with an arrow that says {sign.arrow}. The number in the {number} line is "
        f"{sign.number}, and the word in the {word} line is {sign.word}. All in all, it sends you {sign.arrow} to "
        f"{sign.word}, with the number {sign.number}."
    )


def spell(sign, style, rng):
    letters, digits = listed(list(sign.word), ", "), listed([NUMBERS[int(d)] for d in sign.number])
    if style == 0:
        question = pick(rng, ["Spell the word and the number.", "How do you spell what is on the sign?"])
        return question, (
            f"The word on the sign is {sign.word}, and it is spelled {letters}. The number on the sign is "
            f"{sign.number}, and its digits are {digits}."
        )
    if style == 1:
        question = pick(rng, ["Read the digits of the number.", "Which digits are on the sign?"])
        return question, (
            f"The digits on the {sign.colour} sign are {digits}. So the number is {sign.number}, and it has "
            f"{NUMBERS[len(sign.number)]} digits. The word next to the number is {sign.word}."
        )
    question = pick(rng, ["Which letters are on the sign?", "Read the letters of the word."])
    return question, (
        f"The letters on the {sign.colour} sign are {letters}. So the word is {sign.word}. It begins with the letter "
        f"{sign.word[0]} and ends with the letter {sign.word[-1]}. The number next to the word is {sign.number}."
    )


def check(sign, style, rng):
    """The number in the question is that of the sign or differs in one digit; it is of the same part as the sign."""
    asked = _near(sign.number, rng)
    pairs = list(zip(asked, sign.number, strict=True))
    verdict = "agree" if asked == sign.number else "differ"
    if style == 0:
        items = [f"{x} and {y} {'agree' if x == y else 'differ'}" for x, y in pairs]
        question = pick(rng, [f"Is {asked} the number on the sign?", f"My number is {asked}. Is it on the sign?"])
        return question, (
            f"Your number is {asked} and the number on the sign is {sign.number}. Digit by digit, {listed(items)}. "
            f"So the numbers {verdict}."
        )
    if style == 1:
        name = pick(rng, PEOPLE)
        question = f"{name} looks for number {asked}. Is this the right sign for {name}?"
        return question, (
            f"{name} looks for {asked}, and the {sign.colour} sign says {sign.number}, so the numbers {verdict}. "
            f"The word on the sign is {sign.word}, and the arrow points {sign.arrow}."
        )
    place = pick(rng, PLACES)
    question = f"The ticket to {place} says {asked}. Compare it with the sign."
    return question, (
        f"The ticket to {place} says {asked} and the sign says {sign.number} with the word {sign.word}. "
        f"These numbers {verdict}, and the {sign.colour} sign points {sign.arrow}."
    )


def way(sign, style, rng):
    """Names and places come from the question."""
    name, place = pick(rng, PEOPLE), pick(rng, PLACES)
    if style == 0:
        question = f"The way to {place} is on the sign. Which way is it to {place}?"
        return question, (
            f"The way to {place} is {sign.arrow}, because the arrow of the {sign.colour} sign points {sign.arrow}. "
            f"The sign says {sign.word}, and the number for {place} is {sign.number}."
        )
    if style == 1:
        question = f"{name} waits at the sign and wants to go to {place}. Write {name} a message."
        return question, (
            f"Hello {name}, the sign next to you is {sign.colour} and says {sign.word}. For {place}, go {sign.arrow} "
            f"as the arrow of the sign does, and look for the number {sign.number}. See you in {place}, {name}."
        )
    question = f"What does the sign tell {name} about {place}?"
    return question, (
        f"It tells {name} that {place} has the number {sign.number} and the word {sign.word}. The arrow of the sign "
        f"points {sign.arrow}, so {name} has to follow the {sign.colour} sign and go {sign.arrow} to {place}."
    )


def _near(number, rng):
    if rng.random() < 0.4:
        return number
    for _ in range(200):
        i, d = int(rng.integers(len(number))), str(rng.integers(1, 10))
        other = number[:i] + d + number[i + 1 :]
        if other != number and part_of_key(other) == part_of_key(number):
            return other
    return number


WRITERS = (read, describe, spell, check, way)
