"""The chosen rows of a benchmark, by id and content: written on first use, held to ever after."""

import json
import os
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from runners.contract import digest


@dataclass(frozen=True, slots=True)
class Manifest:
    """Ids and content hashes in the order of choice; the same bytes on every machine.

    source  'id@revision' on the hub, or the hash of a local copy's columns and row ids
    choice  how the rows were chosen, such as 'seed42-n1000'
    shared  whether the source is the same for everyone (the hub), so that the file belongs with the project
    """

    bench: str
    split: str
    source: str
    choice: str
    rows: dict[str, str]
    shared: bool

    @property
    def file(self) -> str:
        """Its name: benchmark, split, source and choice."""
        name, _, revision = self.source.partition("@")
        source = "@".join(filter(None, [name.replace("/", "--"), revision[:12]]))
        return f"{self.bench}-{self.split}-{source}-{self.choice}.json"

    def text(self) -> str:
        """One row a line, so that a changed row shows as one changed line."""
        content = {name: getattr(self, name) for name in ("bench", "split", "source", "choice")}
        content |= {"hash": digest(json.dumps(self.rows).encode()), "rows": self.rows}
        return json.dumps(content, indent=1, ensure_ascii=True) + "\n"

    def keep(self, folder: Path) -> Path:
        """Write it, or hold the rows against the one that is there.

        Raises ValueError naming the first row that differs.
        """
        path = folder / self.file
        if path.is_file():
            self._check(path)
            return path
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"{self.file}.{os.getpid()}.part"
            part.write_text(self.text())
            os.replace(part, path)
        except OSError as error:
            raise ValueError(
                f"bench {self.bench}: its manifest cannot be written to {path} ({error.strerror})"
            ) from None
        return path

    def _check(self, path: Path) -> None:
        if path.read_text() == self.text():
            return
        try:
            known = json.loads(path.read_text())["rows"].items()
        except (json.JSONDecodeError, KeyError, AttributeError):
            raise ValueError(
                f"bench {self.bench}: {path} is not a whole manifest; delete it to have it made anew"
            ) from None
        pairs = zip_longest(known, self.rows.items(), fillvalue=("no row", ""))
        (was, _), (is_now, _) = next((pair for pair in pairs if pair[0] != pair[1]), (("header", ""), ("header", "")))
        row = was if was == is_now else f"{is_now} (was {was})"
        raise ValueError(
            f"bench {self.bench}, row {row}: its data differs from that of {path}; restore the data that was measured, "
            "or delete the manifest if the change is meant"
        )
