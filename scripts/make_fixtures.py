"""Writes all eight data sets of the paper, small, in their exact column schemas, for trying everything without network.

    python scripts/make_fixtures.py DIR
    python run.py model=tiny_qwen bench=chartqa method=recap bench.path=DIR/chartqa limit=8

Pictures and questions are those of `bench=synthetic` (part "scored", never trained on), so the bundled models can
answer them and the answers are known. Among the rows: pictures of many modes, two pictures in one row, none in another,
a video row, several turns. A second call writes the same rows.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from datasets import Dataset, Features, Image, List, Value
from PIL import Image as Pictures

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from runners.benches.generated import chart_talk, sign_talk
from runners.benches.generated.pictures import WORDS, Picture, draw_picture, render
from runners.benches.generated.talk import draw_dialog
from runners.benches.tables import PROVENANCE

ROWS = 12
SEED = 42
MODES = ("RGB", "L", "RGBA", "P", "CMYK", "LA", "I;16", "1")
STRING, INT32 = Value("string"), Value("int32")
TOPICS = {
    "general vqa": "default", "text vqa": "text reading", "image captioning": "image captioning",
    "chart understanding": "chart reasoning", "complex reasoning pro": "Computer_Science",
    "multi-turn conversation": "ConvBench",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="one folder a benchmark is written there")
    make(parser.parse_args().dir)


def make(folder: Path) -> None:
    """All eight, each replacing what lies under its name."""
    for name, write in WRITERS.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        write(folder / name, np.random.default_rng([SEED, *name.encode()]))
        (folder / name / PROVENANCE).write_text(json.dumps({"made_by": "scripts/make_fixtures.py"}) + "\n")
        print(folder / name)


def encoded(picture: Picture, mode: str = "RGB", form: str = "PNG") -> bytes:
    """The file of a picture in this mode."""
    image = render(picture, seed=0)
    if mode == "P":
        image = image.convert("P", palette=Pictures.Palette.ADAPTIVE)
        image.info["transparency"] = 255
    elif mode == "I;16":
        image = Pictures.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    else:
        image = image.convert(mode)
    file = BytesIO()
    image.save(file, "JPEG" if mode == "CMYK" else form, quality=95)
    return file.getvalue()


def cell(picture: Picture, mode: str = "RGB") -> dict:
    """An image cell as the hub's sets hold it."""
    return {"bytes": encoded(picture, mode), "path": None}


def signs(rng: np.random.Generator):
    """Signs with a question that has them read, and an image cell; modes in turn."""
    for k in range(ROWS):
        sign = draw_picture(rng, "scored", "sign")
        yield k, sign, sign_talk.read(sign, k % 3, rng)[0], cell(sign, MODES[k % len(MODES)])


def charts(rng: np.random.Generator):
    """Charts with a question about their highest bar, and an image cell."""
    for k in range(ROWS):
        chart = draw_picture(rng, "scored", "chart")
        highest = max(chart.bars, key=lambda bar: bar.value)
        yield k, chart, highest, chart_talk.top(chart, k % 2, rng)[0], cell(chart, MODES[k % len(MODES)])


def options(word: str, count: int, rng: np.random.Generator) -> tuple[list[str], int]:
    """The word among others, and its place."""
    others = [WORDS[i] for i in rng.permutation(len(WORDS)) if WORDS[i] != word][: count - 1]
    place = int(rng.integers(count))
    return [*others[:place], word, *others[place:]], place


def mmt_bench(folder: Path, rng: np.random.Generator) -> None:
    """Four to nine options, the unused ones empty or absent; parquet."""
    letters = "ABCDEFGHI"
    rows = []
    for k, sign, question, image in signs(rng):
        words, place = options(sign.word, 4 + k % 6, rng)
        filled = dict(zip(letters, words, strict=False))
        rows.append(
            {"index": 100 + k, "question": question, "image": image, "answer": letters[place], "split": "VAL"}
            | {letter: filled.get(letter, None if k % 2 else "") for letter in letters}
            | {"category": "text_recognition", "l2-category": ("ocr", "visual_recognition")[k % 2]}
        )  # fmt: skip
    kinds = {"index": INT32, "question": STRING, "image": Image(), "answer": STRING}
    kinds |= dict.fromkeys([*letters, "category", "l2-category", "split"], STRING)
    parquet(folder / "val-00000-of-00001.parquet", rows, kinds)


def seed_bench(folder: Path, rng: np.random.Generator) -> None:
    """Lists of pictures, two in one row, and a row about a video; save_to_disk."""
    rows = []
    for k, sign, question, image in signs(rng):
        words, place = options(sign.word, 4, rng)
        video = k == 5
        images = [image, cell(draw_picture(rng, "scored", "grid"))] if k == 3 else [image]
        rows.append(
            {f"choice_{letter}": word for letter, word in zip("abcd", words, strict=True)}
            | {"answer": "ABCD"[place], "question": question, "question_id": str(7000 + k), "data_id": f"{k}.png"}
            | {"data_type": "video" if video else "image", "question_type_id": "10" if video else str(1 + k % 9)}
            | {"segment": "[0, 4]" if video else None, "image": images}
        )  # fmt: skip
    names = ["answer", *(f"choice_{k}" for k in "abcd"), "data_id", "data_type", "question", "question_id"]
    kinds = dict.fromkeys([*names, "question_type_id", "segment"], STRING) | {"image": List(Image())}
    save(folder, rows, kinds)


def scienceqa(folder: Path, rng: np.random.Generator) -> None:
    """Two to five choices, some rows with a hint, one without a picture; parquet."""
    rows = []
    for k, sign, question, image in signs(rng):
        choices, place = options(sign.word, 2 + k % 4, rng)
        rows.append(
            {"image": None if k == 4 else image, "question": question, "choices": choices, "answer": place}
            | {"hint": "The picture shows a sign." if k % 2 else "", "task": "closed choice", "grade": "grade2"}
            | {"subject": ("language science", "natural science")[k % 2], "topic": "reading", "category": "signs"}
            | {"skill": "Read a sign", "lecture": "", "solution": f"The word is {sign.word}."}
        )  # fmt: skip
    texts = ("hint", "task", "grade", "subject", "topic", "category", "skill", "lecture", "solution")
    kinds = {"image": Image(), "question": STRING, "choices": List(STRING), "answer": Value("int8")}
    parquet(folder / "test-00000-of-00001.parquet", rows, kinds | dict.fromkeys(texts, STRING))


def ocrbench(folder: Path, rng: np.random.Generator) -> None:
    """One or two gold answers, a row of HME100k; save_to_disk."""
    rows = [
        {
            "dataset": "HME100k" if k == 2 else "generated signs",
            "question": question,
            "question_type": ("Regular Text Recognition", "Scene Text-centric VQA")[k % 2],
            "answer": [sign.number] if k == 2 else [sign.word, sign.number][: 1 + k % 2],
            "image": image,
        }
        for k, sign, question, image in signs(rng)
    ]
    kinds = dict.fromkeys(["dataset", "question", "question_type"], STRING)
    save(folder, rows, kinds | {"answer": List(STRING), "image": Image()})


def chartqa(folder: Path, rng: np.random.Generator) -> None:
    """Both types, numbers and words as answers; parquet."""
    rows = [
        {
            "type": "human_test" if k < ROWS // 2 else "augmented_test",
            "question": question,
            "answer": str(highest.value) if k % 2 else highest.label,
            "image": image,
        }
        for k, _, highest, question, image in charts(rng)
    ]
    kinds = dict.fromkeys(["type", "question", "answer"], STRING) | {"image": Image()}
    parquet(folder / "test-00000-of-00001.parquet", rows, kinds)


def mathvista(folder: Path, rng: np.random.Generator) -> None:
    """All answer types: text with choices, integer, float of one and two places, list; save_to_disk."""
    rows = []
    for k, chart, highest, question, image in charts(rng):
        values = [bar.value for bar in chart.bars]
        kind = ("text", "integer", "float", "float", "list")[k % 5]
        places = {2: 1.0, 3: 2.0}.get(k % 5)
        choices = [bar.colour for bar in chart.bars] if kind == "text" else None
        answers = {"text": highest.colour, "integer": str(highest.value), "list": str(values)}
        rows.append(
            {"pid": str(k + 1), "question": question, "image": f"images/{k + 1}.jpg", "decoded_image": image}
            | {"choices": choices, "unit": "boxes" if k == 6 else None, "precision": places}
            | {"answer": answers.get(kind) or str(round(sum(values) / len(values), int(places)))}
            | {"question_type": "multi_choice" if choices else "free_form", "answer_type": kind, "query": question}
            | {"metadata": {
                "category": "math-targeted-vqa", "context": "bar chart", "grade": "elementary school",
                "img_height": 84, "img_width": 168, "language": "english", "skills": ["statistical reasoning"],
                "source": "generated", "split": "testmini", "task": "figure question answering",
            }}
        )  # fmt: skip
    texts = ("category", "context", "grade", "language", "source", "split", "task")
    metadata = dict.fromkeys(texts, STRING) | dict.fromkeys(["img_height", "img_width"], Value("int64"))
    kinds = dict.fromkeys(
        ["pid", "question", "image", "unit", "answer", "question_type", "answer_type", "query"], STRING
    )
    kinds |= {"decoded_image": Image(), "choices": List(STRING), "precision": Value("float64")}
    save(folder, rows, kinds | {"metadata": metadata | {"skills": List(STRING)}})


def textvqa(folder: Path, rng: np.random.Generator) -> None:
    """Ten answers a row, not all the same; parquet."""
    rows = [
        {
            "image_id": f"{k:016x}",
            "question_id": 34602 + k,
            "question": question,
            "question_tokens": question.lower().rstrip("?.").split(),
            "image": image,
            "image_width": 168,
            "image_height": 84,
            "flickr_original_url": "",
            "flickr_300k_url": "",
            "answers": [sign.word.lower()] * (10 - k % 4) + [sign.number] * (k % 4),
            "image_classes": ["Sign"],
            "set_name": "val",
            "ocr_tokens": list(sign.lines) if k % 2 else [],
        }
        for k, sign, question, image in signs(rng)
    ]
    kinds = dict.fromkeys(["image_id", "question", "flickr_original_url", "flickr_300k_url", "set_name"], STRING)
    kinds |= dict.fromkeys(["question_id", "image_width", "image_height"], INT32) | {"image": Image()}
    kinds |= dict.fromkeys(["question_tokens", "answers", "image_classes", "ocr_tokens"], List(STRING))
    parquet(folder / "validation-00000-of-00001.parquet", rows, kinds)


def mmspec(folder: Path, rng: np.random.Generator) -> None:
    """Four rows a topic, one to four turns, a literal `<image 1>`; jsonl beside JPEGs."""
    (folder / "images").mkdir()
    lines = []
    for topic, category in TOPICS.items():
        for k in range(4):
            name = f"mmspec_{len(lines) + 1:03d}"
            picture = draw_picture(rng, "scored")
            turns = [t.question for t in draw_dialog(picture, rng, k + 1 if "multi" in topic else 1)]
            if "pro" in topic:
                turns = [f"{turns[0]}<image 1>\nOptions: {[*WORDS[:10]]}"]
            lines.append({"id": name, "image": f"{name}.jpg", "turns": turns, "category": category, "topic": topic})
            (folder / "images" / f"{name}.jpg").write_bytes(encoded(picture, "L" if k == 3 else "RGB", "JPEG"))
    (folder / "mmspec.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def parquet(path: Path, rows: list[dict], kinds: dict) -> None:
    """One parquet file, named as on the hub."""
    Dataset.from_list(rows, features=Features(kinds)).to_parquet(str(path))


def save(folder: Path, rows: list[dict], kinds: dict) -> None:
    """A save_to_disk folder."""
    Dataset.from_list(rows, features=Features(kinds)).save_to_disk(str(folder))


WRITERS: dict[str, Callable[[Path, np.random.Generator], None]] = {
    write.__name__: write for write in (mmt_bench, seed_bench, scienceqa, ocrbench, chartqa, mathvista, textvqa, mmspec)
}

if __name__ == "__main__":
    main()
