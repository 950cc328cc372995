"""Questions about grids; writers as in chart_talk."""

from .phrases import NUMBERS, ORDINALS, PEOPLE, PLACES, a, capital, listed, pick
from .pictures import SHAPES


def rows(grid, style, rng):
    lines, n = _lines(grid), NUMBERS[sum(s is not None for s in grid.shapes)]
    if style == 0:
        items = [f"The {ORDINALS[i]} row has {listed([_a(s) for s in line])}." for i, line in enumerate(lines)]
        question = pick(rng, ["List the grid row by row.", "What is in each row of the grid?"])
        return question, " ".join(items) + f" All in all, there are {n} shapes in the grid."
    if style == 1:
        items = [listed([_a(s) for s in line], " and then ") for line in lines]
        options = ["Describe the grid.", "Describe the picture.", "Please describe the shapes of this grid."]
        question = pick(rng, options)
        return question, (
            f"This is a grid with {n} shapes. It begins with {items[0]} in the top row. Below it, the second row is "
            f"made of {items[1]}. It ends with {items[2]} in the last row."
        )
    text = "\n".join(" | ".join(_name(s) for s in line) for line in lines)
    question = pick(rng, ["Write the grid as a table.", "Turn the shapes into a table."])
    return question, f"Here is the table of the grid:\n{text}\nIt has {n} shapes in three lines."


def columns(grid, style, rng):
    lines = [grid.shapes[i::3] for i in range(3)]
    if style == 0:
        items = [f"The {ORDINALS[i]} column has {listed([_a(s) for s in line])}." for i, line in enumerate(lines)]
        question = pick(rng, ["List the grid column by column.", "What is in each column of the grid?"])
        return question, " ".join(items) + " That was the last column of the grid."
    if style == 1:
        items = [listed([_a(s) for s in line], " above ") for line in lines]
        question = pick(rng, ["Go down the columns of the grid.", "Take me down each column."])
        return question, f"Going from the top to the bottom, you can see {'; next to them are '.join(items)}."
    items = [f"column {'xyz'[i]} is made of {listed([_a(s) for s in line])}" for i, line in enumerate(lines)]
    question = pick(rng, ["Call the columns x, y and z. What are they made of?", "What are the columns x, y and z?"])
    return question, f"In the order of the grid, {listed(items, ', and ')}."


def count(grid, style, rng):
    """The count is kept while the shapes are listed, so that every step adds one to the number before."""
    shape = pick(rng, SHAPES)
    total, steps = 0, []
    for colour, kind in filter(None, grid.shapes):
        total += kind == shape
        if style == 0:
            steps.append(f"{a(colour)} {kind} makes {NUMBERS[total]}")
        elif style == 1:
            steps.append(f"{colour} {kind}, {NUMBERS[total]} so far")
        else:
            steps.append(f"{colour} {kind}: {NUMBERS[total]}")
    if style == 0:
        question = pick(rng, [f"How many of the shapes are a {shape}?", f"Count each {shape} in the grid."])
        return question, f"Let us go from shape to shape: {listed(steps)}. So there are {NUMBERS[total]} of this shape."
    if style == 1:
        question = pick(rng, [f"How many times is there a {shape} in the grid?", f"How often is there a {shape}?"])
        listing = a("; ".join(steps))
        return question, f"Going along the grid, there is {listing}. The number of this shape is {NUMBERS[total]}."
    question = pick(rng, [f"Keep a list and count the {shape} shapes.", f"Make a list that counts the {shape} shapes."])
    lines = "\n".join(steps)
    return question, f"Here is the list with the count:\n{lines}\nThe count at the end is {NUMBERS[total]}."


def look_up(grid, style, rng):
    y, x = (int(v) for v in rng.integers(3, size=2))
    line = _lines(grid)[y]
    row, column = ORDINALS[y], ORDINALS[x]
    if style == 0:
        question = pick(rng, [f"What is in the {row} row, {column} column?", f"In the {row} row, what is {column}?"])
        return question, (
            f"The {row} row of the grid has {listed([_a(s) for s in line])}. "
            f"So the {column} cell of the {row} row has {_a(line[x])}."
        )
    if style == 1:
        question = pick(rng, [f"Tell me about the {row} row of the grid.", f"What do you know about the {row} row?"])
        items = [f"the {ORDINALS[i]} cell has {_a(s)}" for i, s in enumerate(line)]
        return question, (
            f"You asked for the {row} row of the grid. In this row {listed(items)}. "
            f"This means that the row begins with {_a(line[0])} and ends with {_a(line[2])}."
        )
    colours, shapes = zip(*[s or ("empty", "empty") for s in grid.shapes], strict=True)
    texts = [[listed(p[i : i + 3]) for i in (0, 3, 6)] for p in (colours, shapes)]
    question = pick(rng, ["Which colours and shapes are in the rows?", "Give the colours first and then the shapes."])
    return question, (
        f"The colours in the rows are {'; then '.join(texts[0])}. "
        f"The shapes in the rows are {'; then '.join(texts[1])}."
    )


def named(grid, style, rng):
    """Names for the rows come from the question."""
    names = pick(rng, PLACES if style == 1 else PEOPLE, 3)
    lines = _lines(grid)
    if style == 0:
        items = [f"{name} has {listed([_a(s) for s in line])}." for name, line in zip(names, lines, strict=True)]
        question = f"The rows belong to {listed(names)}. What does each of them have?"
        return question, " ".join(items) + f" So the last cell of {names[2]} has {_a(lines[2][2])}."
    if style == 1:
        items = [f"in {x} you can see {listed([_a(s) for s in line])}" for x, line in zip(names, lines, strict=True)]
        question = f"Call the rows {listed(names)}. What can you see in them?"
        return question, f"{capital(listed(items, ', and '))}. That was the way from {names[0]} to {names[2]}."
    lines = "\n".join(f"{name}: {', '.join(_name(s) for s in line)}" for name, line in zip(names, lines, strict=True))
    question = f"Write a line for each of {listed(names)}, in the order of the rows."
    return question, f"{lines}\nThat was the last line, with the row of {names[2]}."


def _lines(grid):
    return [grid.shapes[i : i + 3] for i in (0, 3, 6)]


def _name(shape):
    return " ".join(shape) if shape else "empty"


def _a(shape):
    return a(" ".join(shape)) if shape else "an empty cell"


WRITERS = (rows, columns, count, look_up, named)
