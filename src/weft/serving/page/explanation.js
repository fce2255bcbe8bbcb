/**
 * What an explanation says about stretches of the two texts. It knows no element of the page.
 *
 * The server explains pieces and gives words as ranges of pieces. The page asks about characters: a span is
 * {begin, end} in a text. Shares are from 0 to 1.
 */

export class Explanation {
  /** `told` is the answer of /weft/explain; `source` and `target` are the texts as they stand on the page. */
  constructor(told, source, target) {
    this.told = told;
    this.sourceSpans = spansOf(told.source_words, source);
    this.targetSpans = spansOf(told.target_words, target);
    this.shares = told.target_words.map((word) => told.source_words.map((other) => this.#share(word, other)));
  }

  /** How probable the words within a span of the target were, the least of them; null where no word is known. */
  probability(span) {
    const words = overlapping(this.targetSpans, span).map((index) => this.told.target_words[index]);
    const sums = words.map((word) => sum(this.told.log_probs.slice(word.first, word.last + 1)));
    return sums.length ? Math.exp(Math.min(...sums)) : null;
  }

  /** [{span, text, share}] of the source, most first, for a span of the target. */
  attendedBy(span) {
    const rows = overlapping(this.targetSpans, span).map((index) => this.shares[index]);
    const share = (index) => sum(rows.map((row) => row[index])) / Math.max(1, rows.length);
    return ranked(
      this.told.source_words.map((word, index) => this.#weighed(word, this.sourceSpans[index], share(index))),
    );
  }

  /** [{span, text, share}] of the target, most first, for a span of the source. */
  attendersOf(span) {
    const columns = overlapping(this.sourceSpans, span);
    const share = (index) => sum(columns.map((column) => this.shares[index][column]));
    return ranked(
      this.told.target_words.map((word, index) => this.#weighed(word, this.targetSpans[index], share(index))),
    );
  }

  /** The source word without which a span of the target loses most, or null where none costs half a nat. */
  neededBy(span) {
    const rows = overlapping(this.targetSpans, span).map((index) => this.told.occlusion?.[index] ?? []);
    const loss = this.told.source_words.map((_, index) => sum(rows.map((row) => row[index] ?? 0)));
    const most = loss.indexOf(Math.max(...loss));
    return loss[most] > 0.5 ? this.told.source_words[most].text.trim() : null;
  }

  /** Attention of the pieces of a target word, on average, to those of a source word together. */
  #share(word, other) {
    const rows = this.told.attention.slice(word.first, word.last + 1);
    return sum(rows.map((row) => sum(row.slice(other.first, other.last + 1)))) / Math.max(1, rows.length);
  }

  #weighed(word, span, share) {
    return { span, text: word.text.trim(), share: Math.min(1, share) };
  }
}

/**
 * Where each word stands in a text; null for one that is not found.
 *
 * A model may read another text than the page shows, such as Simplified for Traditional characters. Where both have as
 * many visible characters, their places are the same; elsewhere words are looked for one after the other.
 */
export function spansOf(words, text) {
  const places = visiblePlaces(text);
  const sizes = words.map((word) => visiblePlaces(word.text).length);
  if (sum(sizes) === places.length) return spansBySize(sizes, places);
  let from = 0;
  return words.map((word) => {
    const begin = text.indexOf(word.text.trim(), from);
    if (begin < 0 || !word.text.trim()) return null;
    from = begin + word.text.trim().length;
    return { begin, end: from };
  });
}

/** The indices of the spans that share a character with `span`. */
export function overlapping(spans, span) {
  const indices = [...spans.keys()];
  return indices.filter((index) => spans[index] && spans[index].begin < span.end && span.begin < spans[index].end);
}

/** [begin, end] of each visible character. */
function visiblePlaces(text) {
  return [...text.matchAll(/\S/gu)].map((match) => [match.index, match.index + match[0].length]);
}

function spansBySize(sizes, places) {
  let number = 0;
  return sizes.map((size) => {
    const span = size ? { begin: places[number][0], end: places[number + size - 1][1] } : null;
    number += size;
    return span;
  });
}

const sum = (numbers) => numbers.reduce((total, value) => total + value, 0);

const ranked = (words) => words.filter((word) => word.span && word.text).sort((one, other) => other.share - one.share);
