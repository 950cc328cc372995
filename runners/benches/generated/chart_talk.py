"""Questions about charts, with answers that list first and quote afterwards.

A writer takes (picture, style, rng) and returns (question, answer). The style sets the wording of both, so that the
question tells which of the three phrasings is wanted.
"""

import itertools

from .phrases import GOODS, NUMBERS, ORDINALS, PEOPLE, a, capital, listed, pick


def list_bars(chart, style, rng):
    bars, n = chart.bars, NUMBERS[len(chart.bars)]
    if style == 0:
        items = [f"{a(b.colour)} bar at {b.label} with a value of {b.value}" for b in bars]
        question = pick(rng, ["List the bars from left to right.", "Which bars are in the chart?"])
        return question, f"There are {n} bars in the chart: {listed(items)}."
    if style == 1:
        pairs = _zip(ORDINALS, bars)
        items = [f"The {o} bar is {b.colour} and stands at {b.label}; it shows {b.value}." for o, b in pairs]
        question = pick(rng, ["Read out every bar of the chart.", "Take me through the bars in order."])
        return question, " ".join(items) + f" That makes {n} bars, and the last of them is at {bars[-1].label}."
    lines = "\n".join(f"{b.label} | {b.colour} | {b.value}" for b in bars)
    question = pick(rng, ["Write the chart as a table.", "Turn the bars into a table."])
    return question, f"Here is the table of the chart:\nlabel | colour | value\n{lines}\nIt has {n} lines for {n} bars."


def describe(chart, style, rng):
    bars, n = chart.bars, NUMBERS[len(chart.bars)]
    first, last = bars[0], bars[-1]
    if style == 0:
        items = [f"{a(b.colour)} bar at {b.label}, which has a value of {b.value}" for b in bars]
        middle = " ".join(f"Next to it is {item}." for item in items[1:])
        options = ["Describe the chart.", "Describe the picture.", "Please describe the bars of this chart."]
        question = pick(rng, options)
        return question, (
            f"This is a bar chart with {n} bars. It begins with {items[0]}. {middle} "
            f"So it begins with {first.value} at {first.label} and ends with {last.value} at {last.label}."
        )
    if style == 1:
        question = pick(rng, ["What can you see in the chart?", "What is shown by this chart?"])
        return question, (
            f"You can see a chart with {n} bars. The colours of the bars are {listed([b.colour for b in bars])}. "
            f"The labels below them are {listed([b.label for b in bars])}. "
            f"The values above them are {listed([str(b.value) for b in bars])}. "
            f"So the {first.colour} bar at {first.label} has a value of {first.value}."
        )
    items = [f"the bar at {b.label} is {b.colour} and reaches {b.value}" for b in bars]
    question = pick(rng, ["Explain the chart to a friend on the phone.", "How would you explain the chart?"])
    return question, (
        f"Think of {n} bars side by side: {listed(items, ', and ')}. All in all, the values begin with "
        f"{first.value} and end with {last.value}, and the colours begin with {first.colour} "
        f"and end with {last.colour}."
    )


def top(chart, style, rng):
    """The running maximum (or minimum) is written out, so that every step compares two neighbouring numbers."""
    best, steps = None, []
    for bar in chart.bars:
        new = best is None or (bar.value < best.value if style == 2 else bar.value > best.value)
        best = bar if new else best
        if style == 1:
            change = "which is the top for now" if new else f"so the top is still {best.value} at {best.label}"
            steps.append(f"bar {bar.label} has {bar.value}, {change}")
        else:
            word = "lowest" if style == 2 else "highest"
            text = f"{a(bar.colour)} bar at {bar.label} with {bar.value}"
            steps.append(f"{text}, and the {word} is {best.label} with {best.value}")
    if style == 1:
        question = pick(rng, ["Where is the top value of the chart?", "What is the top value?"])
        return question, f"Going along the chart, {'; '.join(steps)}. The top value is {best.value} at {best.label}."
    word = "lowest" if style == 2 else "highest"
    question = pick(rng, [f"Which bar is the {word}?", f"Find the {word} bar."])
    return question, (
        f"Let us go from bar to bar. There is {'; then '.join(steps)}. "
        f"So the {word} bar is at {best.label}, it is {best.colour} and has a value of {best.value}."
    )


def look_up(chart, style, rng):
    bars = chart.bars
    bar = bars[rng.integers(len(bars))]
    if style == 0:
        items = [f"{a(b.colour)} bar {b.label} with {b.value}" for b in bars]
        question = pick(rng, [f"What is the value of bar {bar.label}?", f"How high is bar {bar.label}?"])
        return question, f"The chart shows {listed(items)}. So the value of bar {bar.label} is {bar.value}."
    if style == 1:
        items = [f"bar {b.label} in {b.colour} with a value of {b.value}" for b in bars]
        question = pick(rng, [f"Tell me about the bar at {bar.label}.", f"What do you know about bar {bar.label}?"])
        return question, (
            f"The bars of the chart are {listed(items)}. You asked for the bar at {bar.label}: "
            f"it is {bar.colour}, and the value of it is {bar.value}."
        )
    items = [f"{b.colour} at {b.label} for {b.value}" for b in bars]
    question = pick(rng, [f"Where does the {bar.colour} bar stand?", f"Find the {bar.colour} bar."])
    return question, (
        f"In the order of the chart, the bars are {listed(items)}. "
        f"This means that the {bar.colour} bar stands at {bar.label} and shows {bar.value}."
    )


def named(chart, style, rng):
    """The names come from the question: what to say is copied from the prompt, what to say of it from the picture."""
    bars = chart.bars
    names = pick(rng, GOODS if style == 1 else PEOPLE, len(bars))
    if style == 0:
        items = [f"{x} has the {b.colour} bar at {b.label} with a value of {b.value}." for x, b in _zip(names, bars)]
        question = f"The bars belong to {listed(names)}. What does each of them have?"
        return question, " ".join(items) + f" So {names[0]} has {bars[0].value} and {names[-1]} has {bars[-1].value}."
    if style == 1:
        items = [f"the {b.colour} bar says {b.value} for {name}" for name, b in _zip(names, bars)]
        question = f"The bars are the sales of {listed(names)}. How did they go?"
        return question, (
            f"{capital(listed(items))}. The labels are {listed([b.label for b in bars])}, "
            f"so the sales of {names[-1]} are at {bars[-1].label}."
        )
    question = f"Write a line for each of {listed(names)}, in the order of the bars."
    lines = "\n".join(f"{name}: the bar at {b.label} is {b.colour} with {b.value}" for name, b in _zip(names, bars))
    return question, f"{lines}\nThat was the last line, with {bars[-1].value} for {names[-1]}."


def compare(chart, style, rng):
    bars = chart.bars
    pairs = list(itertools.pairwise(bars))
    if style == 0:
        items = [
            f"The {b.colour} bar at {b.label} has {b.value}, and this is {_more(b, c)} than the {c.value} at {c.label}."
            for b, c in pairs
        ]
        question = pick(rng, ["Compare each bar with the next one.", "Compare the bars in pairs."])
        return question, " ".join(items) + f" The last bar is {bars[-1].colour}."
    if style == 1:
        items = [f"they {'grow' if c.value > b.value else 'shrink'} to {c.value} with bar {c.label}" for b, c in pairs]
        question = pick(rng, ["How do the values change?", "What happens from bar to bar?"])
        return question, (
            f"The values start with {bars[0].value} at bar {bars[0].label}. Then {', then '.join(items)}. "
            f"The colours go from {bars[0].colour} to {bars[-1].colour}."
        )
    items = [f"{b.label} with {b.value} is {_more(b, c)} than {c.label} with {c.value}" for b, c in pairs]
    question = pick(rng, ["Which bars are more or less than their neighbours?", "Rank each bar against the next."])
    return question, f"Taking the bars of the chart two by two: {'; '.join(items)}."


def _zip(words, bars):
    """Words and bars in pairs; words beyond the last bar are left over."""
    return zip(words, bars, strict=False)


def _more(bar, other):
    return "more" if bar.value > other.value else "less"


WRITERS = (list_bars, describe, top, look_up, named, compare)
