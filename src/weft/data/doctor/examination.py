"""Examine files of pairs and return a diagnosis. Each file is read three times; only numbers are kept of each pair.

    read 1   check each pair by itself; compute its keys; draw a sample for the lexicon
    between  find duplicates, leaks and length ratios; learn the lexicon
    read 2   check each pair against the lexicon: out of step, unrelated, cut
    read 3   fetch the texts of the pairs that the diagnosis shows

Memory: about 100 bytes a pair in a corpus of five million.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.data.corpus import CorpusEntry, Layout, different_names
from weft.data.doctor.alignment import (
    FARTHEST,
    STRANGERS,
    STRETCHES,
    Alignment,
    Block,
    align,
    blocks_out_of_step,
    joined,
    texts_cut,
)
from weft.data.doctor.checks import check
from weft.data.doctor.copies import BANDS, band_keys, find_in, first_alike, near_duplicates
from weft.data.doctor.findings import KINDS, SEVERITIES, Diagnosis, Example, Finding, Suspicion
from weft.data.doctor.reading import File, PairsInMemory
from weft.data.filtering import FEWEST_TRUSTED, NoiseFilter
from weft.data.keys import keys_of, pair_keys
from weft.data.measures import tokens
from weft.errors import counted
from weft.text.chinese import is_chinese
from weft.text.language import is_in_words_of_characters, is_one_language, is_written_without_spaces

SAMPLE = 50_000
"""Least number of pairs, evenly spread, that the lexicon is learned from, if the corpus has as many."""
EXAMPLES = 5
SUSPICIOUS = 50
RATIO_SPREADS = 5.0
"""A length ratio is an outlier from this many standard deviations on, if one side has at least RATIO_LENGTH units."""
RATIO_LENGTH = 8
"""Characters or words."""
SURPRISING = 0.02
"""Share of the held-out pairs that surprise n-gram models as much as reported ones do. Nothing is reported unless at
least twice as many training pairs do, since a corpus without noise has this share too."""
MOST_TRUSTED = 5_000
"""Held-out pairs that these models are compared with."""
SCRIPT_SHARE = 0.01
"""Share of a side's texts from which on a second Chinese script is reported."""

NO_TRANSLATION = ("empty", "no words", "swapped", "copy", "wrong language", "mojibake", "out of step", "strangers")
"""Kinds of which a pair is not also reported under the kinds of EXPLAINED, their consequences."""
EXPLAINED = ("unrelated", "cut", "surprising", "length ratio", "numbers", "long")

Places = NDArray[np.int64]


def examine(
    parts: Mapping[str, Sequence[CorpusEntry]],
    layout: Layout,
    root: Path,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Find everything that is wrong with these files: those of the part `train`, and the held-out files of the others.

    Raises CorpusError if a file or a column is missing.
    """
    of_part = [(part, entry) for part, entries in parts.items() for entry in entries]
    files = [
        File(name, part, entry, root, layout)
        for (part, entry), name in zip(of_part, different_names([entry for _, entry in of_part]), strict=True)
    ]
    examination = Examination(files, layout.languages)
    on_progress("reading the pairs")
    examination.check_each_pair()
    on_progress("searching for duplicates and leaks")
    examination.find_duplicates()
    examination.find_leaks()
    examination.find_near_leaks()
    examination.find_length_ratios()
    examination.find_scripts()
    on_progress("comparing the two sides by a lexicon learned from the corpus")
    examination.check_alignment()
    return examination.diagnosis()


def describe_leaks(known: Sequence[int], pairs: int, other: str, part: str) -> str:
    of_all = f"the {counted(pairs, 'pair')} of {other}"
    return f"{known[0]:,} source and {known[1]:,} target sides of {of_all} occur in {part}"


class Examination:
    """The state of an examination. Pairs are numbered from 0 across all files; the files of a part are consecutive."""

    def __init__(
        self, files: Sequence[File | PairsInMemory], languages: tuple[str, str], *, is_quick: bool = False
    ) -> None:
        """`is_quick` skips what only duplicates, leaks and the lexicon need."""
        self.files, self.languages, self.is_quick = files, languages, is_quick
        self.found: dict[str, list[Places]] = {}
        self.notes: dict[tuple[str, int], str] = {}
        self.details: dict[str, list[str]] = {}
        self.remarks: list[str] = []
        self.starts: list[int] = []
        self.alignment_score = np.zeros(0, np.float32)

    # Read 1

    def check_each_pair(self) -> None:
        """Check each pair by itself; compute its keys, and draw a sample of the training pairs."""
        keys: list[NDArray[np.uint64]] = []
        bands: list[NDArray[np.uint64]] = []
        others: list[NDArray[np.uint64]] = []
        other_pairs: list[Places] = []
        lengths, scripts = [], []
        self.sample: list[tuple[str, str]] = []
        self.first_pairs: list[tuple[str, str]] = []
        self.last_pairs: list[tuple[str, str]] = []
        self.trusted: list[tuple[str, str]] = []
        spacing, pair = 1, 0
        for file in self.files:
            self.starts.append(pair)
            for sources, references in file.chunks():
                targets = [texts[0] for texts in references]
                source_tokens, target_tokens = [*map(tokens, sources)], [*map(tokens, targets)]
                if not self.is_quick:
                    others.append(keys_of([text for texts in references for text in texts[1:]]))
                    counts = [len(texts) - 1 for texts in references]
                    other_pairs.append(np.repeat(np.arange(pair, pair + len(references)), counts))
                    keys.append(np.stack([keys_of(sources), keys_of(targets)], 1))
                    bands.append(band_keys(source_tokens, target_tokens))
                checked = check(sources, targets, source_tokens, target_tokens, self.languages)
                for kind, places in checked.found.items():
                    self.add(kind, places + pair)
                self.notes |= {("numbers", place + pair): note for place, note in checked.other_numbers.items()}
                lengths.append(checked.lengths)
                scripts.append(checked.scripts)
                if file.part == self.files[0].part and not self.is_quick:
                    offset = -pair % spacing
                    self.sample += zip(sources[offset::spacing], targets[offset::spacing], strict=True)
                    if len(self.sample) > 2 * SAMPLE:
                        self.sample, spacing = self.sample[::2], 2 * spacing
                    rows = list(zip(sources, targets, strict=True))
                    self.first_pairs += rows[: STRETCHES[-1] - len(self.first_pairs)]
                    self.last_pairs = [*self.last_pairs, *rows][-STRETCHES[-1] :]
                elif not self.is_quick:
                    self.trusted += list(zip(sources, targets, strict=True))[: MOST_TRUSTED - len(self.trusted)]
                pair += len(sources)
        self.pairs, self.spacing = pair, spacing
        self.keys = np.concatenate(keys) if keys else np.zeros((0, 2), np.uint64)
        self.other_keys = np.concatenate([np.zeros(0, np.uint64), *others])
        self.other_pairs = np.concatenate([np.zeros(0, np.int64), *other_pairs])
        self.bands = np.concatenate(bands) if bands else np.zeros((0, BANDS), np.uint64)
        self.lengths = np.concatenate(lengths) if lengths else np.zeros((0, 2), np.int32)
        self.scripts = scripts

    def add(self, kind: str, pairs: Places) -> None:
        self.found.setdefault(kind, []).append(pairs.astype(np.int64))

    def range_of(self, part: str) -> tuple[int, int]:
        """Return the first pair of a part and the one after its last."""
        ends = [*self.starts[1:], self.pairs]
        places = [place for place, file in enumerate(self.files) if file.part == part]
        return (self.starts[places[0]], ends[places[-1]]) if places else (0, 0)

    @property
    def parts(self) -> list[str]:
        return list(dict.fromkeys(file.part for file in self.files))

    # Between the readings

    def find_duplicates(self) -> None:
        """Find the pairs whose keys equal those of an earlier pair of the same part, and the others that nearly do."""
        whole = pair_keys(self.keys[:, 0], self.keys[:, 1])
        for part in self.parts:
            first, last = self.range_of(part)
            exact, near = first_alike(whole[first:last]), near_duplicates(self.bands[first:last])
            for kind, alike in (("duplicate", exact), ("near duplicate", near)):
                again = np.flatnonzero(alike != np.arange(last - first)) + first
                again = np.setdiff1d(again, self.all_of("duplicate"))
                self.add(kind, again)
                self.name_twins(kind, again, alike[again - first] + first)

    def find_leaks(self) -> None:
        """Find the pairs of a part of which a side occurs in a later part."""
        for part, other in combinations(self.parts, 2):
            (first, last), (begin, end) = self.range_of(part), self.range_of(other)
            in_one_language = is_one_language(*self.languages)
            twin, known = np.full(last - first, -1), []
            for side in (0, 1):
                held, pairs = self.held_side(begin, end, side)
                is_known = np.zeros(len(held), bool)
                for keys in self.keys[first:last].T if in_one_language else [self.keys[first:last, side]]:
                    twin = np.where(twin >= 0, twin, np.append(pairs, -1)[find_in(keys, held)])
                    is_known |= find_in(held, keys) >= 0
                known.append(len(np.unique(pairs[is_known])))
            leaks = np.flatnonzero(twin >= 0)
            if not len(leaks):
                continue
            self.add("leak", leaks + first)
            self.name_twins("leak", leaks + first, twin[leaks])
            self.details.setdefault("leak", []).append(describe_leaks(known, end - begin, other, part))

    def held_side(self, begin: int, end: int, side: int) -> tuple[NDArray[np.uint64], Places]:
        """Return the keys of one side of these pairs, and the pair of each; the target side includes all references."""
        keys, pairs = self.keys[begin:end, side], np.arange(begin, end)
        if side == 0:
            return keys, pairs
        inside = (self.other_pairs >= begin) & (self.other_pairs < end)
        return np.concatenate([keys, self.other_keys[inside]]), np.concatenate([pairs, self.other_pairs[inside]])

    def find_near_leaks(self) -> None:
        """Find the pairs that nearly equal a pair of a later part, and of which no side occurs there."""
        for part, other in combinations(self.parts, 2):
            (first, last), (begin, end) = self.range_of(part), self.range_of(other)
            held = end - begin
            twins = near_duplicates(np.concatenate([self.bands[begin:end], self.bands[first:last]]))[held:]
            near = np.setdiff1d(np.flatnonzero(twins < held) + first, self.all_of("leak")) - first
            self.add("near leak", near + first)
            self.name_twins("near leak", near + first, twins[near] + begin)

    def name_twins(self, kind: str, pairs: Places, twins: Places) -> None:
        """Note for the first of these pairs, which become the examples, which pair each one repeats."""
        for pair, twin in zip(pairs[: 4 * EXAMPLES].tolist(), twins.tolist(), strict=False):
            file, line = self.place(twin)
            self.notes[kind, pair] = f"as {file}:{line}"

    def find_length_ratios(self) -> None:
        """Find the pairs whose length ratio is far from the usual one of the corpus; short texts get more tolerance."""
        if len(self.lengths) < 50:
            return
        logs = np.log(self.lengths + 3.0)
        ratio = logs[:, 1] - logs[:, 0]
        ratio -= np.median(ratio)
        spread = max(1.4826 * float(np.median(np.abs(ratio))), 0.15)  # standard deviation of a normal distribution
        far = (np.abs(ratio) > RATIO_SPREADS * spread) & (self.lengths.max(1) >= RATIO_LENGTH)
        self.add("length ratio", np.flatnonzero(far))

    def find_scripts(self) -> None:
        """Find the texts in the rarer script of a Chinese side that has two."""
        for side, language in enumerate(self.languages):
            if not is_chinese(language) or not self.scripts:
                continue
            has = {
                name: np.concatenate([of_chunk[name][side] for of_chunk in self.scripts]) for name in self.scripts[0]
            }
            texts = {
                "Traditional": has["traditional"] & ~has["simplified"],
                "Simplified": has["simplified"] & ~has["traditional"],
            }
            shares = {name: float(there.mean()) for name, there in texts.items()}
            rarer = min(shares, key=lambda name: shares[name])
            if shares[rarer] >= SCRIPT_SHARE:
                self.add("two scripts", np.flatnonzero(texts[rarer]))
                said = ", ".join(f"{100 * share:.1f} % {name}" for name, share in shares.items())
                where = ("source", "target")[side]
                self.details.setdefault("two scripts", []).append(
                    f"the {where} texts: {said}; the rest fits both scripts or mixes them"
                )

    # Read 2

    def check_alignment(self) -> None:
        """Check the pairs against a lexicon learned from them; if none can be learned, add a remark that says why."""
        undivided = [
            code for code in self.languages if is_written_without_spaces(code) and not is_in_words_of_characters(code)
        ]
        if undivided:
            self.remarks.append(
                f"{' and '.join(undivided)} is written without spaces between words: "
                "not checked whether the sides translate each other"
            )
            return
        sample, begin, end = (
            ([source for source, _ in pairs], [target for _, target in pairs])
            for pairs in (self.sample, self.first_pairs, self.last_pairs)
        )
        alignment = align(*sample, self.languages, begin=begin, end=end)
        self.sample, self.first_pairs, self.last_pairs = [], [], []
        if alignment is None:
            self.remarks.append("too few pairs to learn a lexicon: not checked whether the sides translate each other")
            return
        if alignment.separation < STRANGERS:
            self.add("strangers", np.arange(*self.range_of(self.parts[0])))
            return
        noise = None
        if len(self.trusted) >= FEWEST_TRUSTED:
            trusted = [source for source, _ in self.trusted], [target for _, target in self.trusted]
            noise = NoiseFilter.learn(sample, trusted, SURPRISING, 0)
        surprising: list[Places] = []
        self.alignment_score = np.zeros(self.pairs, np.float32)
        self.unrelated = alignment.unrelated
        for start, file in zip(self.starts, self.files, strict=True):
            pair = start
            sources: list[str] = []
            targets: list[str] = []
            blocks: list[Block] = []
            for new_sources, references in file.chunks():
                new_targets = [texts[0] for texts in references]
                # The last pairs of the previous chunk may belong to the first ones of this chunk.
                kept = min(2 * FARTHEST, pair - start)
                sources, targets = (
                    sources[len(sources) - kept :] + new_sources,
                    targets[len(targets) - kept :] + new_targets,
                )
                blocks += self._check_chunk(alignment, sources, targets, pair - kept)
                if noise is not None and file.part == self.files[0].part:
                    rows = np.arange(pair, pair + len(new_sources))
                    masks = noise.judge((new_sources, new_targets), rows // self.spacing % 2)
                    surprising.append(rows[masks["cross_entropy"]])
                pair += len(new_sources)
            self._name_blocks(file.name, joined(blocks))
        first, last = self.range_of(self.parts[0])
        if sum(map(len, surprising)) > 2 * SURPRISING * (last - first):
            self.add("surprising", np.concatenate(surprising))

    def _check_chunk(
        self, alignment: Alignment, sources: Sequence[str], targets: Sequence[str], first: int
    ) -> list[Block]:
        """Check each of these pairs, and return the blocks that are out of step."""
        source_tokens, target_tokens = [*map(tokens, sources)], [*map(tokens, targets)]
        rows = slice(first, first + len(sources))
        scores = alignment.scores(source_tokens, target_tokens)
        self.alignment_score[rows] = scores
        words = np.fromiter(map(len, source_tokens), np.int64) + np.fromiter(map(len, target_tokens), np.int64)
        self.add("unrelated", np.flatnonzero((scores < alignment.unrelated) & (words >= RATIO_LENGTH)) + first)
        for place, side in texts_cut(alignment, sources, targets).items():
            self.add("cut", np.array([place + first]))
            self.notes["cut", place + first] = side
        blocks = blocks_out_of_step(alignment, source_tokens, target_tokens)
        return [Block(block.first + first, block.last + first, block.offset) for block in blocks]

    def _name_blocks(self, name: str, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self.add("out of step", np.arange(block.first, block.last + 1))
            first, last = (self.place(pair)[1] for pair in (block.first, block.last))
            count, direction = abs(block.offset), "below" if block.offset > 0 else "above"
            self.details.setdefault("out of step", []).append(
                f"{name}, lines {first:,} to {last:,}: "
                f"the target is {count} line{'s' if count > 1 else ''} {direction} its source"
            )

    # Results

    def all_of(self, kind: str) -> Places:
        """Return the pairs of this kind, in order, without those that a kind of NO_TRANSLATION explains."""
        there = np.unique(np.concatenate(self.found.get(kind, [np.zeros(0, np.int64)])))
        if kind in EXPLAINED:
            worse = np.concatenate([np.zeros(0, np.int64), *(p for k in NO_TRANSLATION for p in self.found.get(k, []))])
            there = np.setdiff1d(there, worse)
        return there

    def place(self, pair: int) -> tuple[str, int]:
        """Return the file and the line of a pair."""
        number = int(np.searchsorted(self.starts, pair, side="right")) - 1
        return self.files[number].name, int(self.files[number].lines[pair - self.starts[number]])

    def diagnosis(self, known: Sequence[Finding] = ()) -> Diagnosis:
        """Return what was found, together with findings that are `known` from elsewhere."""
        kinds = {kind: pairs for kind in KINDS if len(pairs := self.all_of(kind))}
        suspicion, suspects = self._suspects(kinds)
        shown = {int(pair) for pairs in kinds.values() for pair in pairs[:EXAMPLES]} | set(suspects)
        texts = self._texts(shown)

        def example(pair: int, kind: str = "") -> Example:
            return Example(*self.place(pair), *texts[pair], self.notes.get((kind, pair), ""))

        findings = [
            Finding(
                kind,
                self._lines(pairs),
                [example(int(pair), kind) for pair in pairs[:EXAMPLES]],
                self.details.get(kind, ()),
            )
            for kind, pairs in kinds.items()
        ]
        findings += [*self._faults(), *known]
        order = {kind: place for place, kind in enumerate(KINDS)}
        findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), order[finding.kind]))
        seen = [finding for finding in findings if finding.looked_at in (None, self.pairs)]
        with_error = self._carrying(seen, "error")
        return Diagnosis(
            files={file.name: len(file.lines) for file in self.files},
            findings=findings,
            suspicious=[
                Suspicion(example(pair), self._reasons(pair, kinds), float(suspicion[pair])) for pair in suspects
            ],
            with_error=len(with_error),
            with_warning=len(self._carrying(seen, "warning") - with_error),
            without_pair=sum(map(self._without_pair, self.files)),
            remarks=self.remarks,
            is_quick=self.is_quick,
        )

    def _suspects(self, kinds: Mapping[str, Places]) -> tuple[NDArray[np.float32], list[int]]:
        """Return a score for every pair, and the most suspicious pairs, the worst first."""
        suspicion = np.zeros(self.pairs, np.float32)
        for kind, pairs in kinds.items():
            suspicion[pairs] += KINDS[kind].weight
        if len(self.alignment_score):
            suspicion += 1 / (1 + np.exp(np.clip(self.alignment_score - self.unrelated, -20, 20)))
        most = np.argsort(-suspicion, kind="stable")[:SUSPICIOUS]
        return suspicion, [int(pair) for pair in most if suspicion[pair] > 0]

    def _reasons(self, pair: int, kinds: Mapping[str, Places]) -> list[str]:
        reasons = []
        for kind, pairs in kinds.items():
            place = int(np.searchsorted(pairs, pair))
            if KINDS[kind].weight and place < len(pairs) and pairs[place] == pair:
                note = self.notes.get((kind, pair), "")
                reasons.append(f"{KINDS[kind].title}: {note}" if note else KINDS[kind].title)
        return reasons or ["the other side explains few of its words"]

    def _texts(self, pairs: set[int]) -> dict[int, tuple[str, str]]:
        """Return the two sides of these pairs, by reading their files again."""
        texts = {}
        wanted = np.array(sorted(pairs), np.int64)
        for start, file in zip(self.starts, self.files, strict=True):
            of_file = wanted[(wanted >= start) & (wanted < start + len(file.lines))]
            pair = start
            for sources, references in file.chunks() if len(of_file) else ():
                for number in of_file[(of_file >= pair) & (of_file < pair + len(sources))].tolist():
                    texts[number] = sources[number - pair], references[number - pair][0]
                pair += len(sources)
        return texts

    def _lines(self, pairs: Places) -> dict[str, list[int]]:
        lines: dict[str, list[int]] = {}
        for start, file in zip(self.starts, self.files, strict=True):
            there = pairs[(pairs >= start) & (pairs < start + len(file.lines))] - start
            if len(there):
                lines.setdefault(file.name, []).extend(int(file.lines[place]) for place in there)
        return lines

    def _faults(self) -> list[Finding]:
        """Return the findings of reading the files."""
        kinds: dict[str, dict[str, dict[int, None]]] = {}
        examples: dict[str, list[Example]] = {}
        for file in self.files:
            for fault in file.faults:
                kinds.setdefault(fault.kind, {}).setdefault(file.name, {})[fault.line] = None
                examples.setdefault(fault.kind, []).append(Example(file.name, fault.line, "", "", fault.note))
        return [
            Finding(kind, {name: list(lines) for name, lines in files.items()}, examples[kind][:EXAMPLES])
            for kind, files in kinds.items()
        ]

    @staticmethod
    def _without_pair(file: File | PairsInMemory) -> int:
        """Return the number of lines that gave no pair because of a fault."""
        lines = np.unique(np.array([fault.line for fault in file.faults], np.int64))
        return int((~np.isin(lines, np.asarray(file.lines))).sum())

    @staticmethod
    def _carrying(findings: Sequence[Finding], severity: str) -> set[tuple[str, int]]:
        """Return the lines that a finding of this severity names."""
        return {
            (file, line)
            for finding in findings
            if finding.severity == severity
            for file, lines in finding.lines.items()
            for line in lines
        }
